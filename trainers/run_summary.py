"""Summary of a run before it starts: settings, shared weights and estimated memory."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import psutil
import torch
from rich.console import Console
from rich.text import Text

from palaver.agents.base.policy import Policy
from palaver.agents.llm.generation.requests import free_cuda
from palaver.trainers.config.run import RunConfig
from palaver.trainers.config.team import INFERENCE, SHARING
from palaver.trainers.run.memory import GIB, MemoryEstimate, ModelFacts, estimate
from palaver.trainers.run.session import title
from palaver.trainers.update.updater import Updater

MANY = 1_000_000  # completions of a step, beyond which it would last for hours even with a tiny model


def announce(
    config: RunConfig,
    team: Mapping[str, Policy],
    updater: Updater,
    longest: int,
    rows: int,
    console: Console,
    read: int = 0,
) -> None:
    """Print a summary of the run: settings, shared weights and estimated memory."""
    if not updater.distributed.is_main:
        return
    distributed, models = updater.distributed, {one.policy.name: one.facts() for one in updater.learners}
    needs = memory_needs(config, updater, models, longest, rows, read)
    free = {name: _free(torch.device(name or distributed.device)) for name in needs}
    places = {name: f"on {name or 'the workers'} " if len(needs) > 1 else "" for name in needs}
    memory = [f"estimated memory {places[name]}{need}; free {free[name] / GIB:.1f} GiB" for name, need in needs.items()]
    samples = f"{config.algorithm.group_size} joint actions ({config.algorithm.joint})"
    console.print(
        title(config, updater.algorithm, samples).append(
            f"team: {', '.join(team)}: {_sharing(config, updater, list(models.values()))}, "
            f"{config.policy.dtype} on {distributed.device}, {distributed.size} process(es)\n{_partners(config)}"
            f"sampled and scored at {_distributions(updater)}\n"
            f"longest prompt {longest} tokens; " + "\n".join(memory),
        )
    )
    if any(need.total > free[name] for name, need in needs.items()):
        hint = (
            "this may not fit: lower train.micro_tokens, set team.kind=lora or team.kind=shared, or policy.dtype=bf16"
        )
        console.print(Text(hint, style="yellow"))
    if config.algorithm.turns == "tree" and rows > MANY:
        hint = (
            f"a step may have {rows:,} completions of one policy, as every turn branches: set "
            "algorithm.turns=independent or lower algorithm.group_size, unless episodes end much sooner"
        )
        console.print(Text(hint, style="yellow"))


def memory_needs(
    config: RunConfig, updater: Updater, models: Mapping[str, ModelFacts], longest: int, rows: int, read: int
) -> dict[str, MemoryEstimate]:
    """Device -> estimated memory of what computes there; "" is all workers of a placement."""
    policies, critics, held = defaultdict[str, list[ModelFacts]](list), Counter[str](), Counter[str]()
    for learner in updater.learners:
        policies[_device(learner.policy)].append(models[learner.policy.name])
    for critic in updater.estimator.critics.values():
        critics[_device(critic)] += critic.size
    if updater.estimator.held:
        held[_device(getattr(updater.estimator, "encoder", None))] += updater.estimator.held
    first = next(iter(models.values()))  # a critic elsewhere reads with copied weights of a policy
    shape = replace(first, model="", trained=0, references=0, reference_model=None, weights=0, column=0)
    return {
        name: estimate(config, policies.get(name, [shape]), longest, rows, critics[name], held[name], read)
        for name in dict.fromkeys([*policies, *critics, *held])
    }


def _device(placed: object) -> str:
    """Device of a model of this process, "" of one on a worker."""
    device = str(getattr(placed, "device", ""))
    return "" if device.startswith("worker") else device


def _free(device: torch.device) -> int:
    return free_cuda(device) if device.type == "cuda" else int(psutil.virtual_memory().available)


def _sharing(config: RunConfig, updater: Updater, trained: Sequence[ModelFacts]) -> str:
    sizes = [model.trained for model in trained]
    models = list(dict.fromkeys(config.agent(learner.agents[0]).model for learner in updater.learners))
    counted = f"{len(sizes)} x {sizes[0]:,}" if len(set(sizes)) == 1 else " + ".join(f"{size:,}" for size in sizes)
    swap = f"; agents rotate by one slot every {config.team.swap_every} updates" if config.team.swap_every else ""
    asked = config.team.inference
    answers = f"; {INFERENCE[asked]} answers questions" if asked != "own" else ""
    return f"{SHARING[config.team.kind]}, {counted} trained parameters ({', '.join(models)}){swap}{answers}"


def _distributions(updater: Updater) -> str:
    """Sampling distributions of the policies, whose log-probabilities are trained."""
    described = []
    for learner in updater.learners:
        s = learner.sampling
        cuts = [f"top_k {s.top_k}"] * (s.top_k > 0) + [f"top_p {s.top_p:g}"] * (s.top_p < 1)
        truncated = f", truncated by {' and '.join(cuts)}" if cuts else ", the whole vocabulary"
        described.append(f"temperature {s.temperature:g}{truncated}")
    return "; ".join(dict.fromkeys(described))


def _partners(config: RunConfig) -> str:
    named = ", ".join(f"{agent} ({name})" for agent, name in config.team.frozen.items())
    return f"not trained: {named}\n" if named else ""
