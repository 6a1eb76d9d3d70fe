"""Waits for processes have a limit: they end by themselves, are killed, or are left to the kernel with a warning."""

from __future__ import annotations

import multiprocessing
import signal
import subprocess
import sys
import time

import pytest

from palaver.core import PalaverWarning
from palaver.utils import workers as pools
from palaver.utils.workers import wait_or_kill

ENDS, HANGS = "raise SystemExit(7)", "import time; time.sleep(600)"


@pytest.mark.parametrize(("code", "patience", "expected"), [(ENDS, 60, 7), (HANGS, 0.2, -signal.SIGKILL)])
def test_a_process_ends_by_itself_or_is_killed(code, patience, expected):
    began = time.monotonic()
    assert wait_or_kill(subprocess.Popen([sys.executable, "-c", code]), patience) == expected
    assert time.monotonic() - began < 60


@pytest.mark.parametrize(("seconds", "patience", "expected"), [(0, 60, 0), (600, 0.2, -signal.SIGKILL)])
def test_so_does_one_of_multiprocessing(seconds, patience, expected):
    process = multiprocessing.get_context("fork").Process(target=time.sleep, args=(seconds,))
    process.start()
    assert wait_or_kill(process, patience) == expected


def test_one_that_the_kernel_keeps_is_left_to_it(monkeypatch):
    """A process waits in the kernel, as for a device that does not answer: no signal ends it."""
    monkeypatch.setattr(pools, "KILLED_S", 0.2)
    process = subprocess.Popen([sys.executable, "-c", HANGS])
    monkeypatch.setattr(process, "kill", lambda: None)
    with pytest.warns(PalaverWarning, match=f"{process.pid} was killed 0.2 seconds ago and is still there"):
        assert wait_or_kill(process) is None
    monkeypatch.undo()
    assert wait_or_kill(process) == -signal.SIGKILL
