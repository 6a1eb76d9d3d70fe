"""A program's limits count its processor time, so that a busy machine makes no zeros; one that sleeps ends too."""

from __future__ import annotations

import os
import socket
import time

import pytest

from palaver.envs.code.sandbox import Limits
from palaver.envs.code.sandbox.clock import Allowance, OverError
from tests.cpus import busy_processes

WORKS = "import time\ndef f(x):\n    while time.process_time() < {seconds}: pass\n    return x\n"
SLEEPS = "import time\ndef f(x):\n    time.sleep({seconds})\n    return x\n"


@pytest.mark.parametrize("mode", ["bubblewrap", "landlock"])
def test_a_program_that_waits_for_its_processor_is_not_timed_out(mode, pools):
    """0.5 s of work next to three busy processes for each core take 2 s: far above the limit, were it wall clock."""
    pool = pools(mode)
    limits = Limits(seconds=0.8, total_seconds=2.0, wall_factor=60.0)
    with busy_processes(3 * len(os.sched_getaffinity(0)), own_sessions=True):
        report = pool.score(WORKS.format(seconds=0.5), "assert f(1) == 1", "f", limits=limits)
    assert report.verdict == "pass", report
    assert report.seconds > limits.seconds


@pytest.mark.parametrize("mode", ["bubblewrap", "landlock"])
def test_processor_time_ends_a_program_long_before_the_wall_clock(mode, pools):
    limits = Limits(seconds=0.3, total_seconds=1.0, wall_factor=1000.0, timeouts=2)
    report = pools(mode).score(WORKS.format(seconds=90), "assert f(1) == 1\nassert f(2) == 2", "f", limits=limits)
    assert [result.message for result in report.results] == [f"f({n}) took longer than 0.3 s" for n in (1, 2)]
    assert [result.verdict for result in report.results] == ["timeout", "timeout"]


def test_processor_time_in_all_is_limited_over_the_calls(pools):
    program = "import time\ndef f(x):\n    end = time.process_time() + 0.2\n    while time.process_time() < end: pass"
    tests = "\n".join(["assert f(1) is None"] * 9)
    report = pools().score(program, tests, "f", limits=Limits(seconds=0.5, total_seconds=0.9, wall_factor=1000.0))
    assert report.verdict == "timeout"
    assert report.passed == 4  # 4 times 0.2 are below 0.9, and 5 times above
    assert [result.verdict for result in report.results[4:]] == ["timeout"] * 5


@pytest.mark.parametrize("mode", ["bubblewrap", "landlock"])
def test_a_program_that_sleeps_ends_with_the_wall_clock(mode, pools):
    limits = Limits(seconds=0.2, total_seconds=0.4, wall_factor=3.0, timeouts=3)
    report = pools(mode).score(SLEEPS.format(seconds=100), "assert f(1) == 1\nassert f(2) == 2", "f", limits=limits)
    assert [result.verdict for result in report.results] == ["timeout", "timeout"]
    assert report.results[0].message == "f(1) took longer than 0.6 s"
    assert 0.6 <= report.seconds < 1.2 + 5.0  # 3 times 0.4 s in all; and what a busy machine takes to end processes
    short = pools(mode).score(SLEEPS.format(seconds=0.3), "assert f(1) == 1", "f", limits=limits)
    assert short.verdict == "pass"


def test_loading_a_program_is_limited_alike(pools):
    limits = Limits(seconds=0.2, total_seconds=1.0, wall_factor=3.0, timeouts=1)
    report = pools().score("import time\ntime.sleep(100)\ndef f(x): pass", "assert f(1) == 1", "f", limits=limits)
    assert (report.verdict, report.results[0].message) == ("timeout", "loading the program took longer than 0.6 s")


def _taken(passcred):
    ours, theirs = socket.socketpair()
    if passcred:
        ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    theirs.send(b".")
    allowance = Allowance(seconds=0.05, total_seconds=0.2, factor=100.0)
    allowance.take(ours)
    return allowance, ours, theirs


def _use_up(allowance):
    while True:
        allowance.elapse()


def test_the_kernel_says_which_process_a_child_is():
    """Here the child is this very process, which uses no processor time while it sleeps."""
    allowance, ours, theirs = _taken(passcred=True)
    allowance._total += time.process_time()  # of this process, before
    allowance.begin()
    time.sleep(0.1)
    allowance.check()
    allowance.elapse()
    with pytest.raises(BlockingIOError, match=r"^0\.05$"):
        _use_up(allowance)
    ours.close()
    theirs.close()


def test_wall_clock_counts_where_processor_time_cannot_be_read():
    allowance, ours, theirs = _taken(passcred=False)
    allowance.begin()
    time.sleep(0.06)
    with pytest.raises(BlockingIOError):
        allowance.elapse()
    time.sleep(0.2)
    with pytest.raises(OverError):
        allowance.begin()
    assert allowance.end()
    ours.close()
    theirs.close()


def test_what_a_program_waited_for_a_processor_is_not_counted_up_to_a_bound(monkeypatch):
    """Wall clock of 1 s a call and 4 s in all, and 3 s of waiting: a call has 4 s, and 5 times 4 s are the most."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    monkeypatch.setattr(Allowance, "_used", lambda self, _now: 0.0)
    monkeypatch.setattr(Allowance, "_delay", lambda self: waited[0])
    waited = [3.0]
    allowance = Allowance(seconds=0.5, total_seconds=2.0, factor=2.0)
    allowance._channel, ours = socket.socketpair()
    allowance.begin()
    now[0] = 103.9
    allowance.elapse()
    now[0] = 104.1
    with pytest.raises(BlockingIOError, match=r"^1$"):
        allowance.elapse()
    waited[0] = 1000.0
    now[0] = 119.9
    allowance.elapse()
    now[0] = 120.1
    with pytest.raises(BlockingIOError):
        allowance.elapse()
    with pytest.raises(OverError):
        allowance.begin()
    allowance._channel.close()
    ours.close()
