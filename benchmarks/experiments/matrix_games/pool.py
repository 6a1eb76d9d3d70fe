"""Worker processes that train cells; a crash affects only the worker's current cell.

A worker is a fresh process (`spawn`) that trains one cell after the other, so that torch is imported once. What it
prints goes to the cell's `log.txt`. It exits with its parent process, however that one ends.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import shutil
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from multiprocessing import connection
from pathlib import Path
from typing import Any

from palaver.benchmarks.experiments.silence import STALLED_S, Silence
from palaver.core import PalaverError
from palaver.trainers.config.run import RunConfig
from palaver.trainers.run.files import METRICS
from palaver.utils.workers import join_or_kill

LOG = "log.txt"
WATCH_S = 1.0  # polling interval of the workers
END_S = 10.0  # for a worker that has closed its pipe to end by itself
Pipe = connection.Connection


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
    waiting = list(enumerate(orders))[::-1]
    busy: dict[Pipe, tuple[_Worker, int]] = {}
    idle = [_Worker() for _ in range(min(workers, len(waiting)))]
    try:
        while waiting or busy:
            while waiting and idle:
                index, order = waiting.pop()
                worker = idle.pop()
                busy[worker.pipe] = (worker, index)
                worker.begin(order)
            ready = connection.wait(list(busy), WATCH_S)
            for worker, _ in busy.values():
                worker.watch()
            for pipe in [open_pipe for open_pipe in busy if open_pipe in ready]:
                worker, index = busy.pop(pipe)
                outcome = worker.outcome()
                if worker.process.is_alive():
                    idle.append(worker)
                elif waiting:
                    idle.append(_Worker())
                yield index, outcome
    finally:
        for worker in (*idle, *(worker for worker, _ in busy.values())):
            worker.end()


class _Worker:
    """Handle of a worker process in its parent."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.pipe, child_pipe = context.Pipe()
        self.process = context.Process(target=_serve, args=(child_pipe,), daemon=True)
        self.process.start()
        child_pipe.close()
        self.folder, self.began, self.stalled = Path(), 0.0, ""
        self.silence = Silence()

    def begin(self, order: TrainOrder) -> None:
        self.folder, self.began = order.folder, time.perf_counter()
        self.silence = Silence(order.folder / LOG, order.folder / METRICS)
        with contextlib.suppress(BrokenPipeError):  # it has died; `outcome` reports it
            self.pipe.send(order)

    def watch(self) -> None:
        """Kill it if its run hangs, so that it has an outcome."""
        if self.silence.seconds() > STALLED_S:
            self.stalled = f"it wrote nothing for {STALLED_S:g} seconds and was ended"
            self.process.kill()

    def outcome(self) -> TrainOutcome:
        """Return the answer, or the last line of the log if the process died."""
        try:
            outcome: TrainOutcome = self.pipe.recv()
        except (EOFError, ConnectionResetError):
            code = join_or_kill(self.process, END_S)
            self.pipe.close()
            message = last_line(self.folder / LOG)
            died = self.stalled or f"its process ended with {code}"
            return TrainOutcome(time.perf_counter() - self.began, 0.0, f"{message} ({died})" if message else died)
        return outcome

    def end(self) -> None:
        """Kill it and wait."""
        join_or_kill(self.process)
        self.pipe.close()


def last_line(path: Path) -> str:
    """The last line of a log that is not empty."""
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
    except OSError:
        return ""
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def _serve(pipe: Pipe) -> None:
    """Main loop of a worker. Ctrl-C is left to the parent, except in the steps of a run."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    while True:
        try:
            order: TrainOrder = pipe.recv()
        except EOFError:
            return
        pipe.send(_train(order))


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
    os._exit(1)


def _train(order: TrainOrder) -> TrainOutcome:
    """Train one run and return user errors.

    A defect ends this process, with its traceback in the log.
    """
    shutil.rmtree(order.folder, ignore_errors=True)
    order.folder.mkdir(parents=True)
    _write_to(order.folder / LOG)
    wall, cpu = time.perf_counter(), time.process_time()
    error = ""
    try:
        _run(order)
    except PalaverError as mistake:
        error = str(mistake)
    if not order.checkpoints:
        shutil.rmtree(order.folder / "checkpoints", ignore_errors=True)
    return TrainOutcome(time.perf_counter() - wall, time.process_time() - cpu, error)


def _run(order: TrainOrder) -> None:
    from rich.console import Console

    from palaver.trainers.train import train

    train(order.config, order.folder, console=Console(stderr=True, width=120), launch=order.launch)


def _write_to(path: Path) -> None:
    """Redirect the output of this process, including that of C libraries, to a file."""
    sys.stdout.flush()
    sys.stderr.flush()
    with path.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
