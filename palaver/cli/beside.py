"""A training run in a process of its own, on another core, while this process goes on."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from palaver.cli.folders import Job
from palaver.core import PalaverError

PATIENCE_S = 120.0  # for a run that was asked to stop: it saves what it has and writes its report


class Beside:
    """A run that was started; `log` holds what it prints."""

    def __init__(self, job: Job, log: Path) -> None:
        self.job, self.log = job, log
        log.parent.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "palaver", "train", job.recipe, *job.overrides, "--out", str(job.folder)]
        with log.open("w", encoding="utf-8") as stream:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream)

    def wait(self) -> str:
        """`done` or `interrupted`, once it is.

        Raises:
            PalaverError: it failed.
        """
        code = self.process.wait()
        if code not in (0, 130):
            raise PalaverError(f"the run {str(self.job.folder)!r} failed with {code}; {str(self.log)!r} says why")
        return "interrupted" if code else "done"

    def stop(self) -> None:
        """Have it save and end, if it still runs."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


@contextmanager
def beside(job: Job | None, log: Path) -> Iterator[Beside | None]:
    """The run of `job`, if there is one; it does not outlive the block."""
    run = Beside(job, log) if job else None
    try:
        yield run
    finally:
        if run:
            run.stop()
