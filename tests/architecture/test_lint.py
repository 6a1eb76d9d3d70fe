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
