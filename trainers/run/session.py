"""Session of a run: its folder, status, clock, progress bar, and stop on a signal."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from rich.console import Console
from rich.text import Text

from palaver.core import ConfigError
from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.config.run import RunConfig
from palaver.trainers.run import checkpoint
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.files import LAUNCH, METRICS, STATUS, begin
from palaver.trainers.run.logging import RunLogger, read_metrics
from palaver.trainers.run.memory import memory_advice
from palaver.utils.progress import Bar, NotebookBar
from palaver.utils.run_folder import DiskErrorContext, locked, overwrite, replace_text


@dataclass(slots=True)
class Clock:
    """Wall and CPU seconds of a run, over resumes."""

    wall: float = 0.0
    cpu: float = 0.0

    def start(self) -> None:
        """Start or resume counting."""
        self.wall = time.perf_counter() - self.wall
        self.cpu = time.process_time() - self.cpu

    def read(self) -> dict[str, float]:
        """Return the seconds so far."""
        return {"wall_s": round(time.perf_counter() - self.wall, 3), "cpu_s": round(time.process_time() - self.cpu, 3)}


@dataclass(slots=True)
class RunSession:
    """An open run, as `run_session` yields it to the loop.

    Attributes:
        config: config of the run.
        distributed: its processes.
        folder: its folder.
        clock: its clock.
        done: steps done; the loop counts on.
        run_logger: loggers of metrics; None on other processes than the main one.
        report: called after each step with the step and its metrics.
        interrupted: returns True if the user requested a stop.
    """

    config: RunConfig
    distributed: Distributed
    folder: Path
    clock: Clock
    done: int = 0
    run_logger: RunLogger | None = None
    report: Callable[[int, dict[str, Any]], None] = lambda *_: None
    interrupted: Callable[[], bool] = lambda: False


@dataclass(frozen=True, slots=True)
class RunStart:
    """Folder of a run and the checkpoint that it continues from.

    Attributes:
        folder: folder of the run.
        checkpoint: checkpoint to resume from; None starts from the beginning.
        launch: record of the command that started the run.
        locked: True if the caller already holds the folder's lock.
    """

    folder: Path
    checkpoint: Path | None = None
    launch: Mapping[str, Any] | None = None
    locked: bool = False

    def hold(self, distributed: Distributed) -> AbstractContextManager[None]:
        """Lock of the folder, taken by the main process if it is not held yet."""
        return locked(self.folder) if distributed.is_main and not self.locked else nullcontext()


@contextmanager
def run_session(config: RunConfig, distributed: Distributed, begun: RunStart, console: Console) -> Iterator[RunSession]:
    """Open a run in its folder for the loop inside.

    Its `status.json` is then `done`, `interrupted` or `failed`.

    Args:
        config: config of the run.
        distributed: its processes.
        begun: its folder, and the checkpoint to resume from.
        console: console of the progress bar.

    Raises:
        FolderInUseError: another process writes into the folder.
        ConfigError: the folder holds another run.
        DiskError: the disk is full; a later resume continues exactly.
        DeviceMemoryError: the memory of the GPU is not enough.
    """
    folder, done = begun.folder, checkpoint.step_of(begun.checkpoint) if begun.checkpoint else 0
    disk_full = DiskErrorContext(f"go on with: palaver train --resume {folder}")
    with begun.hold(distributed), disk_full, memory_advice(config, "in training"):
        # a run may have begun here while the models were loaded
        if distributed.is_main and not begun.locked and (folder / METRICS).is_file():
            raise ConfigError(f"{str(folder)!r} already holds a run; resume it, or choose another folder")
        run = RunSession(config, distributed, folder, _clock(folder), done)
        try:
            with graceful_stop() as signals, _status_file(run, signals):
                run.interrupted = signals.wished
                if distributed.is_main:
                    run.run_logger = _open(config, begun, done)
                with bar(config, done, console, visible=distributed.is_main) as run.report:
                    yield run
        finally:
            if run.run_logger:
                run.run_logger.close()


@contextmanager
def _status_file(run: RunSession, signals: _Signals) -> Iterator[None]:
    """Write `status.json`: running inside, then how the run ended."""
    main, status = run.distributed.is_main, "failed"
    try:
        if main:
            replace_text(run.folder / STATUS, _state("running", run.done))
        yield
        status = "done" if run.done == run.config.train.steps else "interrupted"
    except KeyboardInterrupt:
        status = "interrupted"
        raise
    finally:
        signals.raises = False  # a third Ctrl-C must not end the note of the second
        if main:
            _last_status(run.folder, status, max(run.done, run.run_logger.step if run.run_logger else 0))


def _open(config: RunConfig, begun: RunStart, done: int) -> RunLogger:
    """Write the config at a fresh start, and open the loggers."""
    if not begun.checkpoint:
        begin(begun.folder, config)
    if begun.launch is not None:
        replace_text(begun.folder / LAUNCH, json.dumps(begun.launch) + "\n")
    return RunLogger(begun.folder, config, done)


def _clock(folder: Path) -> Clock:
    """Clock with the seconds of the run before this resume."""
    for line in reversed(read_metrics(folder / METRICS)):
        if "wall_s" in line and "cpu_s" in line:
            return Clock(line["wall_s"], line["cpu_s"])
    return Clock()


_SIGHUP: signal.Signals | None = getattr(signal, "SIGHUP", None)  # Windows has none


class _Signals:
    """Signal handler: the first signal requests a stop after this step, the second interrupts.

    Attributes:
        raises: True if another signal interrupts.
    """

    def __init__(self) -> None:
        self.raises = True
        self._count = 0
        self._terminals = [fd for fd in (0, 1, 2) if _is_terminal(fd)]

    def wished(self) -> bool:
        """Return True once a signal was received."""
        return self._count > 0

    def __call__(self, signal_number: int, frame: FrameType | None) -> None:
        """Handle a signal, as a handler of `signal.signal`."""
        del frame
        self._count += 1
        if signal_number == _SIGHUP:
            self._leave_terminals()
        if self._count > 1 and self.raises:
            self.raises = False
            raise KeyboardInterrupt

    def _leave_terminals(self) -> None:
        """Redirect closed terminals to the null device, for a failed write would end the run."""
        with open(os.devnull, "r+b") as nothing:
            for fd in self._terminals:
                if not _is_terminal(fd):
                    os.dup2(nothing.fileno(), fd)


def _is_terminal(fd: int) -> bool:
    try:
        return os.isatty(fd)
    except OSError:
        return False


@contextmanager
def graceful_stop() -> Iterator[_Signals]:
    """Handle SIGINT, SIGTERM and, unless it is ignored (`nohup`), SIGHUP inside the context."""
    signals = _Signals()
    heeded = [signal.SIGINT, signal.SIGTERM]
    if _SIGHUP is not None and signal.getsignal(_SIGHUP) is not signal.SIG_IGN:
        heeded.append(_SIGHUP)
    before = {signal_number: signal.signal(signal_number, signals) for signal_number in heeded}
    try:
        yield signals
    finally:
        for signal_number, handler in before.items():
            signal.signal(signal_number, handler)


def _last_status(folder: Path, status: str, step: int) -> None:
    """Write the final status; on a full disk in place, which takes no more room."""
    try:
        replace_text(folder / STATUS, _state(status, step))
    except OSError:
        with suppress(OSError) if status == "failed" else nullcontext():  # that one has its own error
            overwrite(folder / STATUS, _state(status, step))


def _state(status: str, step: int) -> str:
    return json.dumps({"status": status, "step": step, "pid": os.getpid()})


def title(config: RunConfig, algorithm: Algorithm, samples: str) -> Text:
    """First line of a run's summary; `samples` are those of a task."""
    steps = f", {config.train.steps} steps of {config.train.prompts_per_step} tasks x {samples}\n"
    return Text.assemble((algorithm.name, "bold"), f" ({algorithm.paper}) on ", (config.env.id, "bold"), steps)


@contextmanager
def bar(config: RunConfig, done: int, console: Console, *, visible: bool) -> Iterator[Any]:
    """Live progress bar; yields the function that the loop calls after each step."""
    kind = NotebookBar if console.is_jupyter else Bar
    with kind("training", console, config.train.steps, disable=not visible) as progress:
        progress.update(progress.task, completed=done)

        def report(step: int, metrics: Mapping[str, Any]) -> None:
            speed = f"  {metrics['tokens_per_s']:,.0f} tokens/s" if "tokens_per_s" in metrics else ""
            progress.update(progress.task, shown=f"reward {metrics['reward/mean']:.3f}{speed}", completed=step)

        yield report
