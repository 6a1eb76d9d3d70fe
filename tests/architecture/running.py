"""Python in a process of its own, as a user would start it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.architecture.source import ROOT


def run(*arguments: str, cwd: Path = ROOT, path: Path | None = None) -> str:
    """What `python ARGUMENTS` prints in `cwd`, with `path` as PYTHONPATH; a failure fails the test with its stderr."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    if path:
        env["PYTHONPATH"] = str(path)
    done = subprocess.run([sys.executable, *arguments], cwd=cwd, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout
