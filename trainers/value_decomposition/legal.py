"""Value-decomposition loop over legal actions.

It has epsilon-greedy play, replay, and updates of values. No algorithm is known by name. Every draw is keyed by the
run's seed and the step.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from palaver.core import stable_seed
from palaver.envs.base.env import TextEnv
from palaver.trainers.config.run import RunConfig
from palaver.trainers.rollout.evaluation import only_scored, summarize
from palaver.trainers.rollout.metrics import describe
from palaver.trainers.rollout.tasks import batch_of_tasks
from palaver.trainers.run import checkpoint
from palaver.trainers.run.clock import Clock
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.logging import RunLogger
from palaver.trainers.run.steps import run_steps
from palaver.trainers.value_decomposition.play import Assignment, play
from palaver.trainers.value_decomposition.replay import Replay
from palaver.trainers.value_decomposition.targets import epsilon


@dataclass(frozen=True, slots=True)
class LegalLoop:
    """Training loop with all resources of the run; `report` is called after each step."""

    config: RunConfig
    env: TextEnv
    eval_env: TextEnv
    assignment: Assignment
    replay: Replay
    distributed: Distributed
    run_logger: RunLogger | None
    folder: Path
    clock: Clock
    report: Callable[[int, dict[str, Any]], None]
    interrupted: Callable[[], bool]

    def run(self, start: int) -> int:
        """Train after step `start` until the end or an interruption; return the steps done."""
        return run_steps(self, start)

    def step(self, step: int) -> dict[str, Any]:
        """Play, then learn from the replay; return the metrics of the step."""
        config, a, began = self.config, self.config.algorithm, time.perf_counter()
        tasks = batch_of_tasks([task.id for task in self.env.tasks], config.train.prompts_per_step, config.seed, step)
        chance = epsilon(*a.mixer.epsilon, a.mixer.epsilon_steps, step)
        result = play(
            self.env,
            self.assignment,
            [task for task in tasks for _ in range(a.group_size)],
            epsilon=chance,
            discount=a.discount,
            seed=stable_seed(config.seed, "rollout", step),
        )
        rolled = time.perf_counter()
        only_scored(result.episodes, f"in step {step}")
        self.replay.add(result.transitions)
        learned = self.assignment.team.values.learn(self.replay, stable_seed(config.seed, "mixer replay", step))
        if self.run_logger:
            self.run_logger.episodes("train", step, result.episodes)
        return {
            **self.clock.read(),
            **describe(result.episodes),
            **{f"mixer/{name}": value for name, value in asdict(learned).items()},
            "mixer/epsilon": chance,
            "time/rollout_s": rolled - began,
            "time/update_s": time.perf_counter() - rolled,
        }

    def evaluate(self, step: int) -> None:
        """Evaluate the greedy agents on fixed tasks with fixed seeds."""
        if not self.run_logger:
            return
        config = self.config.eval
        tasks = [task.id for task in self.eval_env.tasks[: config.n] for _ in range(config.samples)]
        result = play(self.eval_env, self.assignment, tasks, epsilon=0.0, discount=1.0, seed=config.seed)
        summary = summarize(result.episodes).to_dict()
        self.run_logger.write("eval", step, {**self.clock.read(), **summary, "greedy": True})
        self.run_logger.episodes("eval", step, result.episodes)

    def save(self, step: int) -> None:
        """Write a checkpoint."""
        seats: Mapping[str, str] = {agent: agent for agent in self.env.possible_agents}
        state = {"team": self.assignment.team.state_dict(), "replay": self.replay.state_dict()}
        checkpoint.save(self.folder, step, {}, {}, state, self.config.train.keep, seats)
