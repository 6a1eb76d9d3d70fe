"""Python in a process of its own, as a user would start it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.architecture.source import ROOT


def run(*arguments: str, cwd: Path = ROOT, path: Path | None = None, limit: float = 120) -> str:
    """What `python ARGUMENTS` prints in `cwd`, with `path` as PYTHONPATH; a failure, or an end later than `limit`
    seconds, fails the test.
    """
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path:
        env["PYTHONPATH"] = str(path)
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=limit)
    assert done.returncode == 0, done.stderr
    return done.stdout


@contextmanager
def started(command: Sequence[str], **settings: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that is killed at the end of the block if it still runs."""
    process = subprocess.Popen(command, text=True, **settings)
    try:
        yield process
    finally:
        process.kill()
        process.wait(60)
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe:
                pipe.close()
