"""Small policies, tables and optimisers for the tests of what learns."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn

from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.core import Completion, Sampling
from palaver.episodes import Episode, Turn
from palaver.trainers.algorithms.magrpo import MAGRPO
from palaver.trainers.config.loading import parse
from palaver.trainers.config.run import RunConfig
from palaver.trainers.rollout.batch import Batch, add_advantages, make_batch
from palaver.trainers.rollout.episodes import SamplingPlan, rollout
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.update.policy_update import PolicyUpdater
from tests.models import byte_tokenizer, tiny_qwen3
from tests.trainers.toys import SEATS, Lengths


def config(**changes: Any) -> RunConfig:
    """Two joint actions, plain steps of 1e-2, on the CPU."""
    values = {
        "policy": {"max_tokens": 12},
        "algorithm": {"group_size": 4},
        "optim": {"lr": 1e-2, "max_grad_norm": 0},
        "train": {"steps": 10},
        "device": "cpu",
    }
    return parse(values | {key: values.get(key, {}) | value for key, value in changes.items()})


def policy(seed: int = 0, dtype: str = "fp32", name: str = "") -> LLMPolicy:
    options = ModelOptions(dtype=dtype, device="cpu")
    return LLMPolicy(tiny_qwen3(seed), byte_tokenizer(), options, name or f"p{seed}")


def learners(team: Mapping[str, LLMPolicy], config: RunConfig) -> list[PolicyUpdater]:
    """One per distinct policy, in order of the agents."""
    agents: dict[int, list[str]] = {}
    for agent, who in team.items():
        agents.setdefault(id(who), []).append(agent)
    world = Distributed("cpu", "fp32")
    return [PolicyUpdater(team[names[0]], names, config, world) for names in agents.values()]


def played(
    team: Mapping[str, LLMPolicy], config: RunConfig, env: Any = None, max_tokens: int = 12, **drawn: Any
) -> Batch:
    """A table of two tasks, not filled; `drawn` are further settings of the sampling."""
    sampling = dict.fromkeys(team, Sampling(max_tokens=max_tokens, **drawn))
    a = config.algorithm
    plan = SamplingPlan(a.group_size, a.joint, a.turns, a.stop_above)
    env = env or Lengths(turns=2)
    return make_batch(rollout(env, team, ["t0", "t1"], plan, sampling=sampling, seed=3))


def scattered(table: Batch, config: RunConfig) -> Batch:
    """Filled, with an advantage of its own for every row: rewards of short random texts are often equal."""
    advantage = torch.randn(len(table), generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return replace(add_advantages(table, MAGRPO, config.algorithm), advantage=advantage)


def shaken(model: Any, by: float = 0.02, seed: int = 5) -> Any:
    """Add noise to every weight."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(by * torch.randn(p.shape, generator=generator))
    return model


class Softmax(nn.Module):
    """A language model of two tokens whose next token depends on nothing."""

    def __init__(self, logits: Sequence[float] = (0.0, 0.0)) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.tensor(logits))

    def forward(self, input_ids: torch.Tensor, use_cache: bool, logits_to_keep: torch.Tensor) -> Any:
        return SimpleNamespace(logits=self.logits.expand(len(input_ids), len(logits_to_keep), 2))

    def get_output_embeddings(self) -> None:
        return None

    @property
    def base_model(self) -> Any:
        return self


class Spy(torch.optim.SGD):
    """Keeps the gradients of every step and leaves the weights alone."""

    def __init__(self, model: Any) -> None:
        super().__init__(model.parameters(), lr=0.0)
        self.names = [name for name, _ in model.named_parameters()]
        self.steps: list[dict[str, torch.Tensor]] = []

    def step(self, closure=None):
        found = zip(self.names, self.param_groups[0]["params"], strict=True)
        self.steps.append({n: torch.zeros_like(p) if p.grad is None else p.grad.clone() for n, p in found})


def spied(learner: PolicyUpdater) -> Spy:
    learner.optimizer = Spy(learner.model)
    return learner.optimizer


def anchor(learner: PolicyUpdater) -> Any:
    """The model that a learner is pulled to, where it is one of its own."""
    with learner.reference.active() as model:
        return model


def row_log_probs(model: Any, said: Completion) -> torch.Tensor:
    """(T,) float64 from the full logits of one row alone, with gradient."""
    ids = torch.tensor([*said.prompt_ids, *said.token_ids])
    logp = torch.log_softmax(model(ids[None]).logits[0, :-1].double(), -1)
    return logp[torch.arange(len(ids) - 1), ids[1:]][len(said.prompt_ids) - 1 :]


def gradients(model: Any, loss: torch.Tensor) -> dict[str, torch.Tensor]:
    """Of a scalar, by name of parameter; the model's own `.grad` is left alone."""
    found = torch.autograd.grad(loss, list(model.parameters()), allow_unused=True)
    named = zip(model.named_parameters(), found, strict=True)
    return {name: torch.zeros_like(p) if g is None else g for (name, p), g in named}


def untimed(run: Path) -> list[dict[str, Any]]:
    """The metrics of a run, without what the clock says."""
    timed = ("wall_s", "cpu_s", "tokens_per_s", "time/")
    lines = read_metrics(run / "metrics.jsonl")
    return [{name: value for name, value in line.items() if not name.startswith(timed)} for line in lines]


def stale(table: Batch, by: float = 0.3, seed: int = 2) -> Batch:
    """As if an older policy had spoken: log-probs at sampling with noise."""
    generator = torch.Generator().manual_seed(seed)

    def noisy(logprobs: tuple[float, ...]) -> tuple[float, ...]:
        return tuple((torch.tensor(logprobs) + by * torch.randn(len(logprobs), generator=generator)).tolist())

    return replace(
        table, completions=tuple(replace(u, sample_logprobs=noisy(u.sample_logprobs)) for u in table.completions)
    )


def episode(
    root: str, lane: int, rewards: Sequence[Sequence[float]], said: Sequence[Mapping[str, Completion]] | None = None
) -> Episode:
    """A chain of turns that branches at the first alone: `rewards` by turn and agent; all agents speak by default."""
    node, turns = root, []
    for index, paid in enumerate(rewards):
        words = (
            said[index] if said else {a: Completion("x", (1, 2), (3,), (-0.5,), (-0.5,)) for a in SEATS[: len(paid)]}
        )
        above, node = node if index else "", f"{node}/{lane if index == 0 else 0}"
        pays = dict(zip(SEATS, paid, strict=False))
        turns.append(
            Turn(
                index, node, above, root if index == 0 else f"{root}@{index}", dict.fromkeys(words, lane),
                {a: f"{a} hears {index}" for a in pays}, words, pays, {a: {"r": r} for a, r in pays.items()},
            )
        )  # fmt: skip
    return Episode("made", root, 0, tuple(turns), "terminated", dict.fromkeys(SEATS, "p"))


def together(jobs: Sequence[Callable[[Callable[..., list[float]]], Any]]) -> list[Any]:
    """What each job returns, run as a process each; a job is given the function that sums over processes."""
    numbers: list[tuple[float, ...]] = [()] * len(jobs)
    barrier = threading.Barrier(len(jobs))

    def total_of(rank: int) -> Callable[..., list[float]]:
        def total(*mine: float) -> list[float]:
            numbers[rank] = mine
            barrier.wait(20)
            summed = [sum(each) for each in zip(*numbers, strict=True)]
            barrier.wait(20)
            return summed

        return total

    with ThreadPoolExecutor(len(jobs)) as pool:
        return [each.result(240) for each in [pool.submit(job, total_of(rank)) for rank, job in enumerate(jobs)]]


def completion(tokens: int, word: str = "x") -> Completion:
    return Completion(word, (1, 2), tuple(range(3, 3 + tokens)), (-0.5,) * tokens)


def row_at(table: Batch) -> dict[tuple[str, str], int]:
    """(node, agent) -> row."""
    members = zip(table.member_row.tolist(), table.member_step.tolist(), strict=True)
    return {(table.steps[step].node, table.agents[int(table.agent[row])]): row for row, step in members}
