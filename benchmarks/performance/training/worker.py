"""One measurement of our training step, in a separate process: `python -m
palaver.benchmarks.performance.training.worker JSON`.

The step is `palaver.trainers.policy_gradient.PolicyGradientLoop.step`, the one that `palaver train` runs. Writing files
(metrics, TensorBoard, episodes, checkpoints) is left out, as it is in the peer's figures.
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.benchmarks.performance.training import limit, toy
from palaver.benchmarks.performance.training.peer import PeakMemory
from palaver.benchmarks.performance.training.settings import (
    AGENTS,
    GROUP,
    WARMUP,
    MeasurementOrder,
    ModelShape,
    setting,
)
from palaver.core import Message
from palaver.envs.base.env import TextEnv
from palaver.trainers.algorithms.base import chosen as chosen_row
from palaver.trainers.config.loading import parse
from palaver.trainers.config.run import RunConfig
from palaver.trainers.placement.in_process import make_learners
from palaver.trainers.policy_gradient import PolicyGradientLoop
from palaver.trainers.rollout.past_selves import PastSelves
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.session import Clock, RunSession
from palaver.trainers.train import make_updater
from palaver.trainers.update.policy_update import PolicyUpdater

SEED = 7


class Stopwatch:
    """Accumulates the seconds of wrapped methods, as counted by `limit.now`."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.spent: dict[str, float] = defaultdict(float)
        self.wall: dict[str, float] = defaultdict(float)

    def wrap(self, owner: Any, method: str, label: str) -> None:
        """Count calls of `owner.method` under `label`."""
        setattr(owner, method, self.timed(getattr(owner, method), label))

    def timed(self, call: Callable[..., Any], label: str) -> Callable[..., Any]:
        """Return `call` wrapped to be counted under `label`."""

        def counted(*args: Any, **keywords: Any) -> Any:
            spent, wall = limit.now(self.device)
            try:
                return call(*args, **keywords)
            finally:
                after, wall_after = limit.now(self.device)
                self.spent[label] += after - spent
                self.wall[label] += wall_after - wall

        return counted


def measure(order: MeasurementOrder) -> dict[str, Any]:
    """Time the steps; with `memory` measure the updates' memory instead, which slows them."""
    torch.set_num_threads(order.threads)
    chosen = setting(order.setting)
    loop = build(chosen, order)
    if order.memory:
        return {"update_peak_bytes": _memory(loop, order)}
    rates = limit.machine(order.device, chosen.dtype)
    for index in range(1, WARMUP + 1):
        loop.step(index)
    watch = Stopwatch(order.device)
    for policy in loop.team.values():
        watch.wrap(policy, "act", "generate")
    for learner in loop.updater.learners:
        watch.wrap(learner, "update", "update")
    step = watch.timed(loop.step, "step")
    lines = [step(index) for index in range(WARMUP + 1, WARMUP + order.steps + 1)]
    return _result(chosen, order, loop, watch, lines, rates)


def build(chosen: ModelShape, order: MeasurementOrder) -> PolicyGradientLoop:
    """Make the loop of a setting, with random models."""
    config = parse(
        {
            "policy": {"dtype": chosen.dtype, "max_tokens": chosen.new_tokens, "temperature": 1.0},
            "algorithm": {"name": "magrpo", "group_size": GROUP},
            "optim": {"lr": 1e-3},
            "train": {"steps": WARMUP + order.steps, "prompts_per_step": order.prompts},
            "seed": SEED,
            "device": order.device,
        }
    )
    env = toy.LengthRatio(order.prompts * (WARMUP + order.steps))
    world = Distributed(config.device, chosen.dtype, cores=order.threads)
    options = ModelOptions(chosen.dtype, world.device)
    words = toy.tokenizer(chosen.vocab)
    team = {
        agent: LLMPolicy(toy.model(chosen, world.device, SEED + index), words, options, agent)
        for index, agent in enumerate(AGENTS)
    }
    return loop_of(config, env, team, world)


def loop_of(config: RunConfig, env: TextEnv, team: Mapping[str, LLMPolicy], world: Distributed) -> PolicyGradientLoop:
    """Make a training loop as `palaver.trainers.train` does, without a run folder."""
    session = RunSession(config, world, Path(), Clock())
    session.clock.start()
    updater = make_updater(config, chosen_row(config.algorithm), make_learners(config, team, world), world)
    return PolicyGradientLoop(session, env, env, team, updater, PastSelves(config.team.past, [], config.seed))


def local_learners(loop: PolicyGradientLoop) -> list[PolicyUpdater]:
    """Learners of a loop whose policies are in this process."""
    return [learner for learner in loop.updater.learners if isinstance(learner, PolicyUpdater)]


def _memory(loop: PolicyGradientLoop, order: MeasurementOrder) -> int | None:
    watch = PeakMemory(order.device)
    if not watch.possible:
        return None
    for learner in local_learners(loop):
        _watch(learner, watch)
    for step in range(1, order.steps + 1):
        loop.step(step)
    return max(watch.rises)


def _watch(learner: Any, watch: PeakMemory) -> None:
    update = learner.update

    def watched(*args: Any) -> Any:
        with watch.update(learner.model, learner.optimizer):
            return update(*args)

    learner.update = watched


def _result(
    chosen: ModelShape,
    order: MeasurementOrder,
    loop: PolicyGradientLoop,
    watch: Stopwatch,
    lines: list[dict[str, Any]],
    rates: limit.Machine,
) -> dict[str, Any]:
    prompts = order.prompts * order.steps
    answers = GROUP * len(AGENTS)  # of one prompt
    sampled = statistics.fmean(line[f"{agent}/tokens"] for line in lines for agent in AGENTS)
    trained = statistics.fmean(line[f"{agent}/rows"] for line in lines for agent in AGENTS)
    opening = loop.env.fork().reset(seed=0, options={"task": 0})[0]
    policies = {agent: learner.policy for learner in loop.updater.learners for agent in learner.agents}
    prompt_tokens = statistics.fmean(len(policies[a].render((Message("user", text),))) for a, text in opening.items())
    floor = limit.work(chosen, order.prompts, prompt_tokens, sampled, chosen.new_tokens).seconds(rates)
    spent = {label: watch.spent[label] / prompts for label in ("generate", "update")}
    step_seconds = watch.spent["step"] / prompts
    return {
        "spent_s": step_seconds,
        "wall_s": watch.wall["step"] / prompts,
        "stages": {**spent, "rest": step_seconds - sum(spent.values())},
        "limit": floor,
        "machine": asdict(rates),
        "prompt_tokens": prompt_tokens,
        "tokens": sampled * answers,
        "trained": trained / (GROUP * order.prompts),
        "tokens_per_s": sampled * answers / (watch.wall["step"] / prompts),
        "parameters": sum(p.numel() for p in local_learners(loop)[0].model.parameters()),
    }


if __name__ == "__main__":
    print(json.dumps(measure(MeasurementOrder(**json.loads(sys.argv[1])))))
