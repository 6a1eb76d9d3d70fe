"""Reports: verdicts, fractions, messages, what crosses between the tests and the program."""

from __future__ import annotations

import pytest

from palaver.core import ConfigError
from palaver.envs.code.sandbox import Limits, TestsError, score

SHORT = Limits(seconds=0.3, total_seconds=2.0, wall_factor=100)  # processor time alone counts, however busy the machine


@pytest.fixture(params=["bubblewrap", "landlock"])
def pool(request, pools):
    return pools(request.param)


@pytest.fixture
def best(pools):
    return pools("auto")


def verdicts(report):
    return [result.verdict for result in report.results]


def test_a_right_program(pool):
    report = score("def f(x): return x + 1", "assert f(1) == 2\nassert f(-1) == 0", "f", pool=pool)
    assert (report.verdict, report.passed, report.total) == ("pass", 2, 2)
    assert verdicts(report) == ["pass", "pass"]
    assert [result.message for result in report.results] == ["", ""]
    assert report.scored
    assert 0 < report.seconds < 5
    assert report.message == ""


def test_the_mode_is_told(pools):
    assert score("f = abs", "assert f(-1) == 1", "f", pool=pools("landlock")).mode == "landlock"
    assert score("f = abs", "assert f(-1) == 1", "f", pool=pools("bubblewrap")).mode == "bubblewrap"


def test_each_assertion_counts(best):
    program = """
def f(x):
    if x == 1: return 1
    if x == 2: return 0
    if x == 3: return [][0]
    if x == 4:
        while True: pass
    if x == 5: return bytearray(1 << 40)
    if x == 6:
        import os
        os._exit(3)
    return x
"""
    tests = "def check(g):\n" + "".join(f"    assert g({n}) == {n}\n" for n in range(1, 8))
    report = score(program, tests, "f", pool=best, limits=SHORT)
    assert verdicts(report) == ["pass", "fail", "error", "timeout", "memory", "killed", "pass"]
    assert report.verdict == "fail"  # of the first that did not pass
    assert (report.passed, report.total) == (2, 7)
    assert [result.line for result in report.results] == [2, 3, 4, 5, 6, 7, 8]
    assert [result.message for result in report.results] == [
        "",
        "f(2) returned 0",
        "f(3) raised IndexError: list index out of range (line 5)",
        "f(4) took longer than 0.3 s",
        "f(5) raised MemoryError: (line 8)",
        "f(6) ended its process with code 3",
        "",
    ]
    assert report.results[1].test == "g(2) == 2"


def test_too_many_losses_end_the_tests(best):
    program = "def f(x):\n    import os\n    os._exit(x)"
    tests = "\n".join(f"assert f({n})" for n in range(5))
    report = score(program, tests, "f", pool=best, limits=Limits(timeouts=2))
    assert verdicts(report) == ["killed"] * 5
    assert [result.message[:4] for result in report.results] == ["f(0)", "f(1)", "f(1)", "f(1)", "f(1)"]


def test_the_whole_is_limited(best):
    program = "import time\ndef f(x):\n    time.sleep(0.25)\n    return x"
    tests = "\n".join(f"assert f({n}) == {n}" for n in range(40))
    report = score(program, tests, "f", pool=best, limits=Limits(seconds=1, total_seconds=0.9, wall_factor=1))
    assert report.verdict == "timeout"
    assert 1 <= report.passed <= 18  # 5 times 0.9 s at most, however long it waited for a processor
    assert verdicts(report) == ["pass"] * report.passed + ["timeout"] * (40 - report.passed)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("", "defines no function 'f'"),
        ("def g(x): return x", "defines no function 'f'"),
        ("f = 3", "defines no function 'f'"),
        ("def f(x) return x", "SyntaxError: expected ':' (program, line 1)"),
        ("import nonsense\ndef f(x): return x", "ModuleNotFoundError: No module named 'nonsense' (line 1)"),
        ("def f(x): return x\nraise SystemExit(0)", "SystemExit: 0 (line 2)"),
        ("x" * (2 << 20), "longer than 1048576 bytes"),
    ],
)
def test_a_program_that_does_not_load(best, program, message):
    report = score(program, "assert f(1) == 1\nassert f(2) == 2", "f", pool=best)
    assert verdicts(report) == ["error", "error"]
    assert message in report.results[0].message


def test_a_main_block_is_not_run(best):
    program = "def f(x): return x\nif __name__ == '__main__':\n    raise ValueError"
    assert score(program, "assert f(1) == 1", "f", pool=best).verdict == "pass"


def test_annotations_and_dataclasses_work(best):
    program = """
from __future__ import annotations
from dataclasses import dataclass
@dataclass
class Point:
    x: int
def f(n: int) -> int: return Point(n).x
"""
    assert score(program, "assert f(4) == 4", "f", pool=best).verdict == "pass"


def test_what_is_done_to_arguments_is_done_here(best):
    program = """
def f(items, table, seen, raw, *, inner):
    items.sort(); items.append(9); items[0].append(0)
    table.pop("a"); table["b"] = [1]
    seen.add(3); seen.discard(1)
    raw[0] = 65
    inner["k"][1].clear()
"""
    tests = """
def check(candidate):
    first = [1]
    items, table, seen, raw, inner = [[2], first], {"a": 1, "c": 2}, {1, 2}, bytearray(b"xy"), {"k": (1, [1, 2])}
    table_too, deep = table, inner["k"][1]
    assert candidate(items, table, seen, raw, inner=inner) is None
    assert items == [[1, 0], [2], 9]
    assert (table, seen, raw, inner) == ({"c": 2, "b": [1]}, {2, 3}, bytearray(b"Ay"), {"k": (1, [])})
    assert table is table_too
    assert inner["k"][1] is deep
"""
    report = score(program, tests, "f", pool=best)
    assert report.verdict == "pass", report


def test_messages_show_what_was_passed_not_what_was_left(best):
    report = score("def f(a): a.clear()", "assert f([1, 2]) == 3", "f", pool=best)
    assert report.results[0].message == "f([1, 2]) returned None"


def test_exceptions_arrive_as_their_builtin(best):
    program = """
class Own(ValueError): pass
def f(kind):
    if kind == "own": raise Own("a", 1)
    if kind == "key": raise KeyError("k")
    if kind == "decode": b"\\xff".decode()
    if kind == "base": raise SystemExit(0)
    raise type("Odd", (Exception,), {})("odd")
"""
    tests = """
def check(candidate):
    for kind, expected, args in (("own", ValueError, ("a", 1)), ("key", KeyError, ("k",))):
        try:
            candidate(kind)
            assert False, "nothing was raised"
        except expected as error:
            assert error.args == args
    try:
        candidate("decode")
    except UnicodeDecodeError as error:
        assert error.object == b"\\xff"
    for kind, name in (("base", "CandidateError"), ("odd", "Exception")):
        try:
            candidate(kind)
            assert False
        except Exception as error:
            assert type(error).__name__ == name
"""
    report = score(program, tests, "f", pool=best)
    assert report.verdict == "pass", report


def test_a_raised_assertion_is_no_failed_test(best):
    report = score("def f(x): assert x == 2, 'own'", "assert f(1) is None", "f", pool=best)
    assert (report.verdict, report.results[0].message) == ("error", "f(1) raised AssertionError: own (line 1)")


def test_what_a_statement_raises_fails_its_assertions_only(best):
    program = "def f(x):\n    if x == 2: raise ValueError('two')\n    return x"
    tests = """
def check(candidate):
    assert candidate(1) == 1
    for n in range(4):
        found = candidate(n)
        assert found == n
    assert candidate(3) == 3
"""
    report = score(program, tests, "f", pool=best)
    assert verdicts(report) == ["pass", "error", "pass"]
    assert report.results[1].message == "f(2) raised ValueError: two (line 2)"


def test_what_a_setting_up_raises_fails_all_that_is_not_reached(best):
    tests = "def check(g):\n    assert g(1) == 1\n    x = g(0)[0]\n    assert x == 1\n    assert g(2) == 2"
    report = score("def f(x): return x", tests, "f", pool=best)
    assert verdicts(report) == ["pass", "error", "error"]
    assert "f(0) returned 0; the test then raised TypeError" in report.results[1].message


def test_helpers_come_from_the_prompt_and_not_from_the_program(best):
    prompt = "def encode(s):\n    return s[::-1]\n\ndef decode(s):\n    '''Undo encode.'''\n"
    tests = "def check(candidate):\n    assert candidate(encode('abc')) == 'abc'"
    right = "def encode(s): return s[::-1]\ndef decode(s): return s[::-1]"
    liar = "def encode(s): return s\ndef decode(s): return s"
    assert score(right, tests, "decode", prompt=prompt, pool=best).verdict == "pass"
    assert score(liar, tests, "decode", prompt=prompt, pool=best).verdict == "fail"


def test_calls_by_name_and_keyword(best):
    program = "def f(a, *rest, k=0): return a, rest, k"
    tests = "assert f(1, 2, k=3) == (1, (2,), 3)\nassert f(*[1]) == (1, (), 0)"
    assert score(program, tests, "f", pool=best).verdict == "pass"


@pytest.mark.parametrize(
    ("tests", "message"),
    [
        ("import nonsense\nassert f(1) == 1", "No module named 'nonsense'"),
        ("assert helper(f(1)) == 1", "name 'helper' is not defined"),
        ("assert f(print) == 1", "pass an argument that is of type builtin_function_or_method"),
        ("x = undefined\nassert f(1) == 1", "name 'undefined' is not defined"),
    ],
)
def test_a_fault_of_the_tests_is_not_the_programs(best, tests, message):
    report = score("def f(x): return x", tests, "f", pool=best)
    assert (report.verdict, report.scored, report.passed, report.total) == ("sandbox_error", False, 0, 1)
    assert message in report.message


def test_tests_that_cannot_be_used_are_an_error_before_anything_runs(best):
    with pytest.raises(TestsError, match="do not parse"):
        score("def f(x): return x", "assert f(", "f", pool=best)


def test_tests_that_hang_on_a_value_end(best):
    """A loop over the program's number, in the trusted process."""
    tests = "def check(g):\n    total = sum(range(g(1)))\n    assert total == 0"
    report = score("def f(x): return 10 ** 15", tests, "f", pool=best, limits=SHORT)
    assert (report.verdict, report.passed) == ("timeout", 0)
    assert score("def f(x): return 1", tests, "f", pool=best).verdict == "pass"


def test_tests_that_eat_memory_with_a_value_end(best):
    report = score("def f(x): return 'x'", "assert f(1) * 10 ** 12 == 0", "f", pool=best)
    assert report.verdict == "error"
    assert "MemoryError" in report.results[0].message


def test_the_same_program_gets_the_same_report(best):
    program = "import random\ndef f(x): return random.random()"
    tests = "import random\ndef check(g):\n    assert g(1) == random.random()\n    assert g({'b', 'a'}) is None"
    messages = {score(program, tests, "f", pool=best).results for _ in range(3)}
    assert len(messages) == 1


def test_draws_of_the_tests_cannot_be_guessed(best):
    program = "import random\ndef f(x):\n    random.seed(0)\n    return random.random()"
    assert score(program, "import random\nassert f(1) == random.random()", "f", pool=best).verdict == "fail"


def test_tests_may_print(best):
    assert score("def f(x): return x", "print('{}' * 999)\nassert f(1) == 1", "f", pool=best).verdict == "pass"


def test_a_program_leaves_nothing_to_the_next(best):
    first = "import builtins, sys, math\nbuiltins.leak = math.pi = 1\nsys.modules['leak'] = sys\ndef f(): return 1"
    second = "import math\ndef f():\n    import leak\n    return leak"
    assert score(first, "assert f() == 1", "f", pool=best).verdict == "pass"
    assert "No module named 'leak'" in score(second, "assert f()", "f", pool=best).results[0].message


@pytest.mark.parametrize("field", ["seconds", "memory", "timeouts"])
def test_limits_are_positive(field):
    with pytest.raises(ConfigError, match=field):
        Limits(**{field: 0})
