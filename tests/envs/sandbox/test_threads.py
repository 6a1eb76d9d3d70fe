"""The number of threads is limited alike in each mode, as root and as an ordinary user."""

from __future__ import annotations

import os

import pytest

from palaver.envs.code.sandbox import Limits, threads, view
from palaver.envs.code.sandbox.launch import LaunchError, SandboxWorker
from tests.envs.sandbox.conftest import USERS

STARTED = """
import threading, time
threading.stack_size(32768)

def start():
    threading.Thread(target=time.sleep, args=(99,), daemon=True).start()

def f():
    for started in range(3000):
        try: start()
        except RuntimeError: break
    return started
"""
# past the C library's and Python's own counts: threads without stacks of their own to speak of, which pause
RAW = """
import ctypes
libc = ctypes.CDLL(None, use_errno=True)
stacks = (ctypes.c_char * 4096 * 3000)()

def f():
    for started in range(3000):
        top = ctypes.c_void_p(ctypes.addressof(stacks[started]) + 4080)
        if libc.clone(libc.pause, top, 0x50F00, None) < 0:
            break
    return started
"""
# every thread starts others for as long as it can
SPREADING = """
import threading, time
threading.stack_size(65536)
alive = []

def spread():
    alive.append(1)
    end = time.monotonic() + 0.4
    while time.monotonic() < end:
        try: threading.Thread(target=spread, daemon=True).start()
        except RuntimeError: pass
    time.sleep(99)

def f():
    threading.Thread(target=spread, daemon=True).start()
    time.sleep(0.6)
    return len(alive)
"""
POOL = """
from concurrent.futures import ThreadPoolExecutor
def f(x):
    with ThreadPoolExecutor(4) as pool:
        return sum(pool.map(abs, range(-x, x)))
"""


@pytest.fixture(params=USERS)
def user(request):
    return request.param


@pytest.fixture(params=["bubblewrap", "landlock"])
def pool(request, pools, user):
    return pools(request.param, user=user)


# 16 processes and threads: the worker, the next child, the program's own thread, and 13 that it starts
@pytest.mark.parametrize(("processes", "started"), [(16, 13), (8, 5)])
@pytest.mark.parametrize("program", [STARTED, RAW], ids=["Python's", "raw"])
def test_threads_are_limited(program, processes, started, pool):
    tests = f"assert f() == {started}\nassert f() == 0"
    report = pool.score(program, tests, "f", limits=Limits(processes=processes))
    assert report.verdict == "pass", report


def test_threads_that_start_threads_are_limited(pool):
    report = pool.score(SPREADING, "assert 1 <= f() <= 2 * 16", "f")
    assert report.verdict == "pass", report


def test_a_pool_of_four_threads_works_as_often_as_it_likes(pool):
    tests = "\n".join(f"assert f({n}) == {n * n}" for n in range(1, 21))  # 80 threads, one pool after the other
    report = pool.score(POOL, tests, "f")
    assert (report.passed, report.total) == (20, 20), report


# --- the count itself ----------------------------------------------------------------------------


@pytest.fixture
def limited(monkeypatch):
    monkeypatch.setattr(threads.seccomp.Filter, "install_with_listener", lambda self: -1)
    made = threads.ThreadLimit()
    made.watch(os.getpid())
    for processes in (99, 8):  # a child before this one wrote its own
        os.write(made.limits, processes.to_bytes(4, "little"))
    yield made
    os.close(made.limits)
    os.close(made._limits)


def test_without_proc_all_that_were_started_count(limited):
    limited._folder = "/nowhere"
    assert [limited._allows(7) for _ in range(9)] == [True] * 5 + [False] * 4


def test_threads_that_may_not_have_begun_count(limited, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(threads.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(threads.os, "stat", lambda path: os.stat_result((0, 0, 0, 4, 0, 0, 0, 0, 0, 0)))
    # two threads of six are alive; four others, and no more, may each start one
    assert [limited._allows(thread) for thread in range(6)] == [True] * 4 + [False] * 2
    assert limited._allows(3)  # its last one has begun, or failed
    clock[0] += 1
    assert limited._allows(5)


def test_a_machine_that_cannot_count_threads_says_so(pools):
    pools("landlock")
    plan = view.plan("landlock")
    known = "_SET_MODE_FILTER, _NEW_LISTENER = 1, 8\n"
    assert sum(known in text for _, text in plan["modules"]) == 1
    modules = [(name, text.replace(known, known.replace("8", "1 << 30"))) for name, text in plan["modules"]]
    with pytest.raises(LaunchError, match="the filter that counts threads was refused: Invalid argument"):
        SandboxWorker({**plan, "modules": modules})
