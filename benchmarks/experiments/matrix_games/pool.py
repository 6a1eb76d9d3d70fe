"""Worker processes that train cells; a crash affects only the worker's current cell.

A worker is a fresh process (`spawn`) that trains one cell after the other, so that torch is imported once. What it
prints goes to the cell's `log.txt`. It exits with its parent process, however that one ends.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palaver.core import PalaverError
from palaver.trainers.config.run import RunConfig
from palaver.trainers.run.files import METRICS
from palaver.utils.workers import STALLED_S, Lost, Send, WorkerPool, write_output_to

LOG = "log.txt"


@dataclass(frozen=True)
class TrainOrder:
    """A run to train.

    Attributes:
        config: of the run.
        folder: of the run; its contents are removed first.
        launch: contents of the run's `launch.json`.
        checkpoints: keep the weights after the run.
    """

    config: RunConfig
    folder: Path
    launch: Mapping[str, Any]
    checkpoints: bool = False


@dataclass(frozen=True)
class TrainOutcome:
    """Result of an order: wall and CPU seconds with loading, and a one-line error or ""."""

    wall_s: float
    cpu_s: float
    error: str = ""


def work(orders: Sequence[TrainOrder], workers: int) -> Iterator[tuple[int, TrainOutcome]]:
    """Train all; yields the index of each order as it ends.

    A run that writes neither to its log nor to its metrics for `STALLED_S` seconds is killed as failed. Closing the
    iterator early, also by Ctrl-C, kills the workers.
    """
    with WorkerPool[tuple[int, TrainOrder]](_train, workers, STALLED_S, files=_files) as pool:
        for job in enumerate(orders):
            pool.submit(job)
        for (index, order), outcome in pool:
            yield index, _lost(order, outcome) if isinstance(outcome, Lost) else outcome


def _files(job: tuple[int, TrainOrder]) -> tuple[Path, ...]:
    return job[1].folder / LOG, job[1].folder / METRICS


def _lost(order: TrainOrder, lost: Lost) -> TrainOutcome:
    """Outcome of a run whose process was lost; the last line of its log may say why."""
    died = f"its process ended with {lost.exit_code}"
    if lost.silent_s:
        died = f"it wrote nothing for {STALLED_S:g} seconds and was ended"
    message = last_line(order.folder / LOG)
    return TrainOutcome(lost.seconds, 0.0, f"{message} ({died})" if message else died)


def last_line(path: Path) -> str:
    """The last line of a log that is not empty."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _train(job: tuple[int, TrainOrder], _send: Send) -> TrainOutcome:
    """Train one run and return user errors.

    A defect ends this process, with its traceback in the log.
    """
    _, order = job
    shutil.rmtree(order.folder, ignore_errors=True)
    order.folder.mkdir(parents=True)
    write_output_to(order.folder / LOG)
    wall, cpu = time.perf_counter(), time.process_time()
    from rich.console import Console

    from palaver.trainers.train import train

    error = ""
    try:
        train(order.config, order.folder, console=Console(stderr=True, width=120), launch=order.launch)
    except PalaverError as mistake:
        error = str(mistake)
    if not order.checkpoints:
        shutil.rmtree(order.folder / "checkpoints", ignore_errors=True)
    return TrainOutcome(time.perf_counter() - wall, time.process_time() - cpu, error)
