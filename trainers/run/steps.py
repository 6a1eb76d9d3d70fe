"""The steps of a run, whatever a step is: train, evaluate, save, stop when asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from palaver.trainers.config.run import RunConfig
from palaver.trainers.run.distributed import World
from palaver.trainers.run.logging import Sinks


class Clocked(Protocol):
    """Seconds of a run."""

    def start(self) -> None:
        """Count from here on."""
        ...


class Walker(Protocol):
    """What trains in steps; `policy_gradient.Loop` and `value_mixing.legal.LegalLoop` do."""

    @property
    def config(self) -> RunConfig:
        """Of the run."""
        ...

    @property
    def world(self) -> World:
        """Device and processes."""
        ...

    @property
    def sinks(self) -> Sinks | None:
        """Where numbers go."""
        ...

    @property
    def clock(self) -> Clocked:
        """Of the run."""
        ...

    @property
    def report(self) -> Callable[[int, dict[str, Any]], None]:
        """Called after each step with the step and its metrics."""
        ...

    @property
    def interrupted(self) -> Callable[[], bool]:
        """Whether the user wishes to stop."""
        ...

    def step(self, step: int) -> dict[str, Any]:
        """One step; its metrics."""
        ...

    def evaluate(self, step: int) -> None:
        """On fixed tasks with fixed seeds."""
        ...

    def save(self, step: int) -> None:
        """A checkpoint."""
        ...


def walk(loop: Walker, start: int) -> int:
    """Train from step `start` (steps done) to the end or to an interruption; the steps done then."""
    config = loop.config
    loop.clock.start()
    if start == 0 and config.eval.n:
        loop.evaluate(0)
    for step in range(start + 1, config.train.steps + 1):
        shown = loop.step(step)
        if loop.sinks:
            loop.sinks.write("train", step, shown)
        last = step == config.train.steps
        if config.eval.n and (last or (config.eval.every and step % config.eval.every == 0)):
            loop.evaluate(step)
        stop = loop.world.share(loop.interrupted())
        if last or stop or step % config.train.checkpoint_every == 0:
            loop.save(step)
        loop.report(step, shown)
        if stop and not last:
            return step
    return config.train.steps
