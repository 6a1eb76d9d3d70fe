"""Expressions compared by math-verify in a process of its own; that it is killed is tested without the library too."""

from __future__ import annotations

import importlib.util
import sys
import time

import pytest

import palaver
from palaver.core import ConfigError
from palaver.envs.maths import equivalence
from palaver.envs.maths.equivalence import Checker, equivalent

needed = pytest.mark.skipif(importlib.util.find_spec("math_verify") is None, reason="math-verify is not installed")
STUCK = "import sys, time; print('ready', flush=True); sys.stdin.readline(); time.sleep(600)"
PARROT = "import sys; print('ready', flush=True); [print('true', flush=True) for _ in sys.stdin]"
DEAF = "raise SystemExit(1)"


def test_a_process_that_does_not_answer_is_killed_and_replaced():
    with Checker((sys.executable, "-c", STUCK), seconds=0.3) as checker:
        start = time.monotonic()
        assert not checker.equal("1", "2")
        assert time.monotonic() - start < 60  # it took the start of a process, not the sleep
        assert checker._process is None
        checker.command = (sys.executable, "-c", PARROT)
        checker.seconds = 60.0
        assert checker.equal("1", "2")
        process = checker._process
    assert process.poll() is not None


def test_a_process_that_cannot_start_means_not_equal():
    with Checker((sys.executable, "-c", DEAF)) as checker:
        assert not checker.equal("1", "1")


def test_long_expressions_are_not_compared(monkeypatch):
    monkeypatch.setattr(equivalence, "_checker", lambda: pytest.fail("asked"))
    assert not equivalent("1" * 201, "1")


def test_without_the_library_it_is_refused(monkeypatch):
    monkeypatch.setattr(equivalence.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match="pip install 'palaver\\[maths\\]'"):
        palaver.make("gsm8k-v0", verifier="math-verify")


@needed
@pytest.mark.parametrize(
    ("truth", "answer", "same"),
    [("2x + 2", "2(x + 1)", True), (r"\sqrt{8}", r"2\sqrt{2}", True), ("x^2", "y^2", False), ("(1, 2)", "(1,2)", True)],
)
def test_expressions(truth, answer, same):
    assert equivalent(truth, answer) == same


@needed
@pytest.mark.slow
def test_what_would_take_for_ever_takes_seconds():
    start = time.monotonic()
    assert not equivalent("1", "9^{9^{9^9}}")
    assert time.monotonic() - start < 90
    assert equivalent("2x", "x + x")


@needed
def test_an_environment_that_asks_it(tmp_path):
    path = tmp_path / "tasks.jsonl"
    path.write_text('{"question": "Double x + 1.", "answer": "2x + 2"}')
    env = palaver.make("gsm8k-v0", tasks=str(path), workflow="parallel", agents=2, verifier="math-verify")
    env.reset()
    *_, infos = env.step({"solver1": r"\boxed{2(x+1)}", "solver2": r"\boxed{2(x+2)}"})
    assert infos["solver1"]["metrics"]["mean_score"] == 0.5
