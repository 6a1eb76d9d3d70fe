"""Training run in a background process, on another core."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from palaver.cli.folders import TrainJob
from palaver.core import PalaverError
from palaver.trainers.run.files import METRICS
from palaver.utils.workers import STALLED_S, WATCH_S, Silence, wait_or_kill

PATIENCE_S = 120.0  # for a run that is stopping: it saves a checkpoint and writes its report


class BackgroundRun:
    """Background run; its output goes to `log`."""

    def __init__(self, job: TrainJob, log: Path) -> None:
        self.job, self.log = job, log
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "palaver", "train", job.recipe, *job.overrides, "--out", str(job.folder)]
        with log.open("w", encoding="utf-8") as stream:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)

    def finish(self) -> str:
        """Wait for the run and return `done` or `interrupted`; Ctrl-C ends the wait.

        Raises:
            PalaverError: it failed, or was stopped after writing neither to its log nor to its metrics for
                `STALLED_S` seconds.
        """
        silence = Silence([self.log, self.job.folder / METRICS])
        while (code := self._ended()) is None:
            if silence.seconds() > STALLED_S:
                self.stop()
                raise PalaverError(
                    f"the run {str(self.job.folder)!r} wrote nothing for {STALLED_S:g} seconds and was stopped; "
                    f"resume with: palaver train --resume {self.job.folder}"
                )
        if code not in (0, 130):
            raise PalaverError(f"the run {str(self.job.folder)!r} failed with exit code {code}; see {str(self.log)!r}")
        return "interrupted" if code else "done"

    def _ended(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            return self.process.wait(WATCH_S)
        return None

    def stop(self) -> None:
        """Stop it gracefully if it still runs; it is killed after `PATIENCE_S` seconds."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            wait_or_kill(self.process, PATIENCE_S)


@contextmanager
def in_background(job: TrainJob | None, log: Path) -> Iterator[BackgroundRun | None]:
    """Context manager of the run of `job`, if there is one; it ends with the block."""
    run = BackgroundRun(job, log) if job else None
    try:
        yield run
    finally:
        if run:
            run.stop()
