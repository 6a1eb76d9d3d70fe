"""What surrounds the steps of a run: its folder and status, the clock, the bar, and an end when the user asks."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Protocol

from rich.console import Console

from palaver.trainers import checkpoint
from palaver.trainers.announce import bar
from palaver.trainers.config import RunConfig, dump
from palaver.trainers.files import CONFIG, LAUNCH, METRICS, STATUS, replace_text
from palaver.trainers.policy_gradient import Clock
from palaver.trainers.sinks import Sinks, read_metrics
from palaver.trainers.world import World


@dataclass(frozen=True, slots=True)
class Opened:
    """What a loop is handed."""

    sinks: Sinks | None
    clock: Clock
    report: Callable[[int, dict[str, Any]], None]
    interrupted: Callable[[], bool]


class Runs(Protocol):
    """A loop."""

    def run(self, start: int) -> int:
        """Train from step `start` on; the steps done in the end."""
        ...


def keep_house(
    config: RunConfig,
    world: World,
    folder: Path,
    start: Path | None,
    console: Console,
    launch: Mapping[str, Any] | None,
    opened: Callable[[Opened], Runs],
) -> Path:
    """Run a loop in its folder; its `status.json` then says `done`, `interrupted` or `failed`.

    Args:
        config: of the run.
        world: its processes.
        folder: of the run.
        start: the checkpoint that it goes on from.
        console: where the bar goes.
        launch: how the run was started.
        opened: makes the loop.

    Returns:
        The folder.
    """
    done = checkpoint.step_of(start) if start else 0
    if world.is_main:
        folder.mkdir(parents=True, exist_ok=True)
        if not start:
            replace_text(folder / CONFIG, dump(config))
        if launch is not None:
            replace_text(folder / LAUNCH, json.dumps(launch) + "\n")
    sinks = Sinks(folder, config, done) if world.is_main else None
    last = read_metrics(folder / METRICS)[-1:]
    clock = Clock(last[0]["wall_s"], last[0]["cpu_s"]) if last else Clock(0.0, 0.0)
    status = "failed"
    try:
        with bar(config, done, console, shown=world.is_main) as report, _patient() as interrupted:
            loop = opened(Opened(sinks, clock, report, interrupted))
            if sinks:
                _status(folder, "running", done)
            done = loop.run(done)
            status = "done" if done == config.train.steps else "interrupted"
    except KeyboardInterrupt:  # before the loop heeds signals, or the second one
        status = "interrupted"
        raise
    finally:
        if sinks:
            _status(folder, status, done)
            sinks.close()
    return folder


@contextmanager
def _patient() -> Iterator[Any]:
    """Turn the first Ctrl-C (or SIGTERM) into a wish to stop after this step; a second one interrupts at once."""
    wishes: list[int] = []

    def wish(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the signal module's signature
        wishes.append(number)
        if len(wishes) > 1:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, wish) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(wishes)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _status(folder: Path, status: str, step: int) -> None:
    replace_text(folder / STATUS, json.dumps({"status": status, "step": step, "pid": os.getpid()}))
