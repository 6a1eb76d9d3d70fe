"""Threads that build syntax trees at the same time."""

from __future__ import annotations

import ast
import gc
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from palaver.envs.code.sandbox.suite import parse
from palaver.envs.maths.calculator import calculator

NESTED = f"x = {[[['orange', 'black'], ['red']] * 20] * 20}"


@pytest.fixture
def lets_others_run():
    """The garbage collector runs often and lets another thread run, as with callbacks such as those of Hypothesis."""

    def callback(phase, info):
        time.sleep(0)

    before = gc.get_threshold()
    gc.callbacks.append(callback)
    gc.set_threshold(50)
    yield
    gc.set_threshold(*before)
    gc.callbacks.remove(callback)


def test_threads_parse_at_once(lets_others_run):
    """With `ast.parse` itself CPython 3.11 raises SystemError: AST constructor recursion depth mismatch."""
    with ThreadPoolExecutor(4) as threads:
        trees = list(threads.map(parse, [NESTED] * 12))
    assert {ast.unparse(tree) for tree in trees} == {NESTED}


def test_threads_calculate_at_once(lets_others_run):
    """The tool of the maths environments builds trees too; rollouts call it from many threads."""
    sums = ["+".join("1" * n) for n in range(60, 100)] * 10
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(calculator, sums)) == [str(text.count("1")) for text in sums]


def test_what_is_no_python_is_an_error_and_the_next_text_is_read():
    with pytest.raises(SyntaxError, match=r"^invalid syntax"):
        parse("x = = 1", "mine")
    with pytest.raises((RecursionError, MemoryError)):
        parse("-" * 100_000 + "1")
    assert ast.unparse(parse("x = 1")) == "x = 1"
