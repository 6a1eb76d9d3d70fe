"""Main loop over the steps of a run: train, evaluate, save, stop on request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from palaver.trainers.config.run import RunConfig
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.logging import RunLogger


class HasClock(Protocol):
    """A clock of a run."""

    def start(self) -> None:
        """Start the clock."""
        ...


class SteppedLoop(Protocol):
    """A trainer in steps.

    Examples are `policy_gradient.PolicyGradientLoop` and `value_decomposition.legal.LegalLoop`.
    """

    @property
    def config(self) -> RunConfig:
        """Config of the run."""
        ...

    @property
    def distributed(self) -> Distributed:
        """Device and processes."""
        ...

    @property
    def run_logger(self) -> RunLogger | None:
        """Loggers of metrics; None on other processes than the main one."""
        ...

    @property
    def clock(self) -> HasClock:
        """Clock of the run."""
        ...

    @property
    def report(self) -> Callable[[int, dict[str, Any]], None]:
        """Called after each step with the step and its metrics."""
        ...

    @property
    def interrupted(self) -> Callable[[], bool]:
        """Returns True if the user requested a stop."""
        ...

    def step(self, step: int) -> dict[str, Any]:
        """Make one training step and return its metrics."""
        ...

    def evaluate(self, step: int) -> None:
        """Evaluate on fixed tasks with fixed seeds."""
        ...

    def save(self, step: int) -> None:
        """Write a checkpoint."""
        ...


def run_steps(loop: SteppedLoop, start: int) -> int:
    """Train after step `start` until the end or an interruption; return the steps done."""
    config = loop.config
    loop.clock.start()
    if start == 0 and config.eval.n:
        loop.evaluate(0)
    for step in range(start + 1, config.train.steps + 1):
        metrics = loop.step(step)
        if loop.run_logger:
            loop.run_logger.write("train", step, metrics)
        last = step == config.train.steps
        if config.eval.n and (last or (config.eval.every and step % config.eval.every == 0)):
            loop.evaluate(step)
        stop = loop.distributed.broadcast(loop.interrupted())
        if last or stop or step % config.train.checkpoint_every == 0:
            loop.save(step)
        loop.report(step, metrics)
        if stop and not last:
            return step
    return config.train.steps
