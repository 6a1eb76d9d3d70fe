"""What `make lint` runs, so that a clean test run is a clean `make lint` too."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.architecture.source import ROOT


def _runs(*command: str) -> None:
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, capture_output=True, text=True, timeout=290)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("command", [("check", "--no-cache"), ("format", "--check", "--no-cache")], ids=" ".join)
def test_ruff(command):
    _runs("ruff", *command)


@pytest.mark.slow
def test_mypy():
    _runs("mypy")


def test_no_code_is_unused():
    """By the allow list of `tool.vulture` in pyproject.toml."""
    _runs("vulture")


@pytest.mark.parametrize(
    "line", ["import agents", "from envs import base", "import trainers.train", "from benchmarks import x"]
)
def test_the_linter_refuses_bare_wings(line):
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "--select=TID251", "--stdin-filename=envs/x.py", "-"],
        input=f"{line}\n", cwd=ROOT, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.returncode == 1
    assert "TID251" in done.stdout
    assert "import palaver." in done.stdout
