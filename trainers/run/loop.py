"""Base of the training loops: train, evaluate, save, stop on request."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from palaver.envs.base.env import TextEnv
from palaver.episodes import Episode
from palaver.trainers.run.checkpoint import folder_of
from palaver.trainers.run.session import RunSession


@dataclass(frozen=True, slots=True)
class BaseLoop(ABC):
    """Training loop over the steps of an open run.

    Attributes:
        session: the open run.
        env: training environment.
        eval_env: environment of the evaluations.
    """

    session: RunSession
    env: TextEnv
    eval_env: TextEnv

    def run(self) -> None:
        """Train from the steps done until the end or an interruption."""
        run, config = self.session, self.session.config
        run.clock.start()
        if run.done == 0 and config.eval.n:
            self.evaluate(0)
        for step in range(run.done + 1, config.train.steps + 1):
            metrics = self.step(step)
            if run.run_logger:
                run.run_logger.write("train", step, metrics)
            last = step == config.train.steps
            if config.eval.n and (last or (config.eval.every and step % config.eval.every == 0)):
                self.evaluate(step)
            stop = run.distributed.broadcast(run.interrupted())
            if last or stop or step % config.train.checkpoint_every == 0:
                self.save(step)
            run.report(step, metrics)
            run.done = step
            if stop:
                break

    def evaluate(self, step: int) -> None:
        """Evaluate on fixed tasks with fixed seeds; the main process writes the result."""
        run = self.session
        episodes, metrics = self.evaluation(step)
        if run.run_logger:
            run.run_logger.write("eval", step, {**run.clock.read(), **metrics})
            run.run_logger.episodes("eval", step, episodes)
        run.distributed.wait()

    def save(self, step: int) -> None:
        """Write a checkpoint, on the main process."""
        if self.session.distributed.is_main:
            self.write_checkpoint(step)
            if self.session.run_logger:
                self.session.run_logger.checkpoint(folder_of(self.session.folder, step), step)
        self.session.distributed.wait()

    @abstractmethod
    def step(self, step: int) -> dict[str, Any]:
        """Make one training step and return its metrics."""

    @abstractmethod
    def evaluation(self, step: int) -> tuple[list[Episode], dict[str, Any]]:
        """Episodes of an evaluation over all processes, and its metrics; called on each of them."""

    @abstractmethod
    def write_checkpoint(self, step: int) -> None:
        """Write the checkpoint after `step`."""
