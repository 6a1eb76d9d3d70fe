"""Training of many runs in worker processes, each in its folder; finished ones are kept.

A worker trains one run after the other, so that torch is imported once. What it prints goes to the run's `log.txt`. A
crash affects only the worker's current run, which begins once more when the experiment is resumed.
"""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol, TypeVar

from palaver.core import CheckpointError, ConfigError, PalaverError
from palaver.text import one_line
from palaver.trainers.config.run import RunConfig
from palaver.trainers.run.files import CONFIG, METRICS, config_text, ended
from palaver.utils.workers import STALLED_S, Lost, Send, WorkerPool, write_output_to

LOG = "log.txt"


class PlannedRun(Protocol):
    """A run of an experiment: its config, and its folder within that of the experiment."""

    @property
    def config(self) -> RunConfig:
        """Of the run."""

    @property
    def subfolder(self) -> Path:
        """Its contents are removed before the run is trained."""


R = TypeVar("R", bound=PlannedRun)


@dataclass(frozen=True)
class TrainOutcome:
    """Result of a run: wall and CPU seconds with loading, and a one-line error or ""."""

    wall_s: float
    cpu_s: float
    error: str = ""


class _Job(NamedTuple):
    """A run as a worker gets it; `position` is that in the list of runs."""

    position: int
    config: RunConfig
    folder: Path
    launch: Mapping[str, Any]
    checkpoints: bool


def finished(run: PlannedRun, folder: Path) -> bool:
    """Return whether this run is finished in the folder of the experiment.

    Raises:
        ConfigError: it is, with another config.
    """
    run_folder = folder / run.subfolder
    done = ended(run_folder)
    if done and (run_folder / CONFIG).read_text(encoding="utf-8") != config_text(run.config):
        raise ConfigError(f"{str(run_folder)!r} holds a run with other settings; choose another folder, or remove it")
    return done


def train_all(
    runs: Sequence[R],
    folder: Path,
    workers: int,
    launch: Callable[[R], Mapping[str, Any]],
    provenance: Mapping[str, Any],
    *,
    checkpoints: bool = False,
) -> Iterator[tuple[R, TrainOutcome]]:
    """Train runs; yields each as it ends.

    A run that writes neither to its log nor to its metrics for `STALLED_S` seconds is killed as failed. Closing the
    iterator early, also by Ctrl-C, kills the workers.

    Args:
        runs: to be trained, in this order.
        folder: of the experiment.
        workers: runs that train at the same time.
        launch: run -> recipe and overrides, for its `launch.json`.
        provenance: likewise.
        checkpoints: keep the weights after a run.
    """
    started = {"started": time.strftime("%Y-%m-%d %H:%M:%S"), **provenance}
    with WorkerPool[_Job](
        _train, workers, STALLED_S, files=lambda job: (job.folder / LOG, job.folder / METRICS)
    ) as pool:
        for position, run in enumerate(runs):
            pool.submit(_Job(position, run.config, folder / run.subfolder, {**launch(run), **started}, checkpoints))
        for job, outcome in pool:
            yield runs[job.position], _lost(job, outcome) if isinstance(outcome, Lost) else outcome


def _lost(job: _Job, lost: Lost) -> TrainOutcome:
    """Outcome of a run whose process was lost; the last line of its log may say why."""
    silent = f"it wrote nothing for {STALLED_S:g} seconds and was ended"
    died = silent if lost.silent_s else f"its process ended with {lost.exit_code}"
    log = job.folder / LOG
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n") if log.is_file() else []
    message = next((line.strip() for line in reversed(lines) if line.strip()), "")
    return TrainOutcome(lost.seconds, 0.0, f"{message} ({died})" if message else died)


def _train(job: _Job, _send: Send) -> TrainOutcome:
    """Train one run and return user errors.

    A defect ends this process, with its traceback in the log.
    """
    shutil.rmtree(job.folder, ignore_errors=True)
    job.folder.mkdir(parents=True)
    write_output_to(job.folder / LOG)
    wall, cpu = time.perf_counter(), time.process_time()
    from rich.console import Console

    from palaver.trainers.train import train

    error = ""
    try:
        train(job.config, job.folder, console=Console(stderr=True, width=120), launch=job.launch)
    except PalaverError as mistake:
        error = str(mistake)
    if not job.checkpoints:
        shutil.rmtree(job.folder / "checkpoints", ignore_errors=True)
    return TrainOutcome(time.perf_counter() - wall, time.process_time() - cpu, error)


@contextmanager
def results_of(path: Path, content: str) -> Iterator[dict[str, Any]]:
    """Context with the values of a results file, in which they are parsed.

    Raises:
        CheckpointError: the file does not exist or has another format than `content`.
    """
    try:
        yield json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{str(path)!r} holds no {content}: {one_line(error)}") from error
