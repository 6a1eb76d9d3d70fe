"""Nothing that a program returns, leaves in its arguments or raises makes it unscored, or harms the trusted process."""

from __future__ import annotations

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from palaver.envs.code.sandbox import Limits, SandboxError, SandboxPool
from tests.envs.sandbox.hostile import TESTS, programs

LIMITS = Limits(seconds=0.5, total_seconds=2.0, wall_factor=20.0, timeouts=2, memory=256 << 20)
SCORED = {"pass", "fail", "error", "timeout", "memory", "killed"}
MEMORY = 1 << 30  # bytes that an examiner may have used at most; its own limit is 2 GiB of address space


def _peak(pid):
    """The most memory that a process has had, in bytes."""
    return 1024 * int(re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())[1])


def _all_scored(count, seed, workers, large):
    with SandboxPool(workers) as pool, ThreadPoolExecutor(workers) as threads:
        try:
            pool.score("def f(x): return x", "assert f(1) == 1", "f")
        except SandboxError as error:
            pytest.skip(str(error))
        given = list(programs(count, seed, large))
        reports = list(threads.map(lambda program: pool.score(program, TESTS, "f", limits=LIMITS), given))
        peaks = [_peak(slot._process.pid) for slot in pool._slots.queue if slot is not None and slot._process]
        # and the workers are as before
        assert pool.score("def f(x): return x", "assert f(1) == 1", "f").verdict == "pass"
    wrong = {
        program[-300:]: report.message for program, report in zip(given, reports, strict=True) if not report.scored
    }
    assert wrong == {}
    assert {result.verdict for report in reports for result in report.results} <= SCORED
    assert {report.total for report in reports} == {14}
    # only a set of three asks for what a program may truly do: none passes all
    assert [program[-300:] for program, report in zip(given, reports, strict=True) if report.verdict == "pass"] == []
    assert max(peaks) < MEMORY
    return Counter(report.verdict for report in reports)


def test_hostile_values_are_all_scored():
    assert _all_scored(200, 0, 1, large=False).total() == 200


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(1, 21))  # 20 times 500
def test_ten_thousand_hostile_values_are_all_scored(seed):
    found = _all_scored(500, seed, 2, large=True)
    assert found.total() == 500
    assert found["error"] + found["fail"] > 250  # most are told apart, and not by a loss of the worker


FED_BACK = """
def wrapped(value):
    for _ in range(30):
        value = [value]
    return value
"""


@pytest.mark.parametrize(
    ("program", "tests"),
    [
        ("def f(x):\n    r = 1\n    for _ in range(97): r = [r]\n    return r", "assert f(wrapped(f(1))) == 2"),
        ("def f(x): return [0] * 150_000", "assert f(f(1) + f(2)) == 2"),
        ("def f(x):\n    x[:] = [0] * 150_000", "a = [1]\nf(a)\nassert f([a, a]) == 2"),
        ("def f(x): return '9' * (1 << 20)", "assert f(f(1) * 5) == 2"),
        ("def f(x): return 10 ** 20000", "assert {}[f(1)] == 2"),
        ("def f(x): raise KeyError(10 ** 20000)", "assert {}[f(1)] == 2"),
        ("def f(x): raise StopIteration", "assert list(map(f, [1, 2])) == []"),
        ("def f(x): raise StopIteration", "assert not any(map(f, [1]))"),
        ("def f(x): raise type('E', (StopIteration,), {})()", "assert all(map(f, [1, 2]))"),
        ("def f(x):\n    if x: raise StopIteration", "assert dict(zip('ab', map(f, [0, 1]))) == {'a': None}"),
        ("async def g():\n    pass\ndef f(x): raise StopAsyncIteration", "assert list(filter(f, [1])) == []"),
        ("def f(x): return 10 ** 9", "import time\ntime.sleep(f(1))\nassert f(2) == 3"),
        ("def f(x): return 40", "def g(n): return 1 if n < 2 else g(n - 1) + g(n - 2)\nassert g(f(1)) == 3"),
    ],
)
def test_what_is_fed_back_is_scored_and_never_passes(pools, program, tests):
    """A program that chooses what its tests cannot handle has failed them; the same with a well behaved one passes."""
    limits = Limits(seconds=0.3, total_seconds=0.5, wall_factor=2.0)
    report = pools().score(program, FED_BACK + tests, "f", limits=limits)
    assert report.scored, report
    assert report.passed == 0, report
    assert report.results[0].message


def test_a_fault_of_the_tests_is_told_from_one_of_the_program(pools):
    """In both a value has come back before: what no program could be given is no program's fault."""
    sound = pools().score("def f(x): return x", "assert f(1) == 1\nassert f([print]) == 2", "f")
    assert (sound.verdict, sound.scored) == ("sandbox_error", False)
    assert "of type builtin_function_or_method" in sound.message
    deep = "def f(x):\n    r = 1\n    for _ in range(90): r = [r]\n    return r"
    guilty = pools().score(deep, FED_BACK + "assert f(1)\nassert f(wrapped(f(2))) == 2", "f")
    assert [result.verdict for result in guilty.results] == ["pass", "error"]
    assert "was not called, with what the program made of an argument, which is nested too" in guilty.results[1].message


NODE = "class Node:\n    def __init__(self, v): self.v = v\n"


@pytest.mark.parametrize(
    "own",
    [
        "class Node:\n    def __eq__(self, other): return True\n    __hash__ = None\n",
        "class Meta(type):\n    def __eq__(cls, other): return True\n    __hash__ = type.__hash__\n"
        "class Node(metaclass=Meta):\n    def __eq__(self, other): return True\n",
        "class Node:\n    def __getattr__(self, name): return 5\n    v = property(lambda self: 5)\n",
        "class Node:\n    def __new__(cls, *a): raise SystemExit\n    def __init__(self): raise SystemExit\n",
        "class Node(int):\n    def __eq__(self, other): return True\n    def __hash__(self): return 0\n",
    ],
)
def test_a_class_of_the_program_decides_nothing(pools, own):
    """Neither its equality nor its attributes reach the tests, where a record is of the tests' own class."""
    program = own + "def f(x):\n    n = object.__new__(Node) if Node.__mro__[1] is object else Node()\n    return n"
    tests = NODE + "assert f(1) == 5\nassert f(Node(1)) == Node(2)\nassert f(1).v == 5\nassert 5 in [f(1)]"
    report = pools().score(program, tests, "f")
    assert report.scored
    assert report.passed == 0, report


def test_a_program_sees_of_the_tests_classes_the_name_and_the_attributes(pools):
    """Methods, class attributes and defaults stay with the tests."""
    tests = (
        "class Node:\n    secret = 42\n    def __init__(self, v): self.v = v\n    def answer(self): return 42\n"
        "assert f(Node(1)) == 42"
    )
    program = "def f(x): return [type(x).__name__, sorted(a for a in dir(x) if a[0] != '_'), vars(x)]"
    report = pools().score(program, tests, "f")
    assert report.results[0].message == "f(Node(v=1)) returned ['Node', ['v'], {'v': 1}]"
