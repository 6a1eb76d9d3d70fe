"""Tools of environments: schemas, limits, and what malformed calls get."""

from __future__ import annotations

import contextlib
import json
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core import ConfigError, ToolCall
from palaver.envs.base.checks import check_hostile
from palaver.envs.base.tools import MOST_ARGUMENTS, MOST_CALLS, MOST_RESULT, ToolError, call_tools, schema_of
from palaver.envs.code.base import TESTS_PASSED
from palaver.envs.code.mini import own_tests
from palaver.envs.maths.calculator import calculator
from palaver.envs.maths.mini.corpus import with_calculator
from palaver.envs.maths.problems import MathProblem, Operation
from palaver.registry import make
from palaver.utils.tool_calls import parse_calls


def repeat(text: str, times: int = 2, upper: bool = False) -> str:
    """Repeat a text.

    Args:
        text: any text,
            of any length.
        times: how often.
        upper: in capitals.
    """
    if times < 0:
        raise ToolError("times is negative")
    return (text.upper() if upper else text) * times


TOOLS = (repeat, calculator)


def test_the_schema_is_that_of_the_type_hints() -> None:
    schema = schema_of(repeat)
    assert (schema.name, schema.description) == ("repeat", "Repeat a text.")
    assert json.loads(schema.parameters) == {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "text": {"type": "string", "description": "any text, of any length."},
            "times": {"type": "integer", "default": 2, "description": "how often."},
            "upper": {"type": "boolean", "default": False, "description": "in capitals."},
        },
        "required": ["text"],
    }


def test_a_tool_needs_a_docstring_and_type_hints() -> None:
    def bare(x: int) -> str:
        return str(x)

    def untyped(x) -> str:
        """Do."""
        return str(x)

    with pytest.raises(ConfigError, match="needs a docstring"):
        schema_of(bare)
    with pytest.raises(ConfigError, match="'x' of the tool 'untyped' needs a type hint"):
        schema_of(untyped)


def test_a_call() -> None:
    (result,) = call_tools(TOOLS, [ToolCall("1", "repeat", '{"text": "ab", "upper": true}')])
    assert (result.content, result.fault) == ("ABAB", "")


MALFORMED = {
    "<tool_call></tool_call>": "no_call",
    "<tool_call>repeat</tool_call>": "no_json",
    '<tool_call>{"name": "repeat"': "no_json",
    "<tool_call>[]</tool_call>": "no_call",
    "<tool_call>null</tool_call>": "no_call",
    '<tool_call>"repeat"</tool_call>': "no_call",
    "<tool_call>{}</tool_call>": "no_name",
    '<tool_call>{"arguments": {}}</tool_call>': "no_name",
    '<tool_call>{"name": 5, "arguments": {}}</tool_call>': "no_name",
    '<tool_call>{"name": "", "arguments": {}}</tool_call>': "no_name",
    '<tool_call>{"name": "repeat"}</tool_call>': "not_an_object",
    '<tool_call>{"name": "repaet", "arguments": {"text": "x"}}</tool_call>': "unknown_tool",
    '<tool_call>{"name": "__class__", "arguments": {}}</tool_call>': "unknown_tool",
    '<tool_call>{"name": "repeat", "arguments": ["x"]}</tool_call>': "not_an_object",
    '<tool_call>{"name": "repeat", "arguments": 7}</tool_call>': "not_an_object",
    '<tool_call>{"name": "repeat", "arguments": "x"}</tool_call>': "no_json",
    '<tool_call>{"name": "repeat", "arguments": {}}</tool_call>': "missing_argument",
    '<tool_call>{"name": "repeat", "arguments": {"text": "x", "loud": true}}</tool_call>': "unknown_argument",
    '<tool_call>{"name": "repeat", "arguments": {"text": 5}}</tool_call>': "wrong_type",
    '<tool_call>{"name": "repeat", "arguments": {"text": "x", "times": "2"}}</tool_call>': "wrong_type",
    '<tool_call>{"name": "repeat", "arguments": {"text": "x", "times": 2.5}}</tool_call>': "wrong_type",
    '<tool_call>{"name": "repeat", "arguments": {"text": "x", "times": true}}</tool_call>': "wrong_type",
    '<tool_call>{"name": "repeat", "arguments": {"text": null}}</tool_call>': "wrong_type",
    '<tool_call>{"name": "repeat", "arguments": {"text": "x", "times": NaN}}</tool_call>': "not_finite",
    '<tool_call>{"name": "repeat", "arguments": "{\\"text\\": \\"x\\", \\"text\\": \\"y\\"}"}</tool_call>':
        "duplicate_argument",
    '<tool_call>{"name": "repeat", "arguments": {"text": "x", "times": -1}}</tool_call>': "refused",
    '<tool_call>{"name": "calculator", "arguments": {"expression": "__import__(1)"}}</tool_call>': "refused",
    f'<tool_call>{{"name": "repeat", "arguments": {{"text": "{"x" * MOST_ARGUMENTS}"}}}}</tool_call>': "too_long",
    f"<tool_call>{'[' * MOST_ARGUMENTS}</tool_call>": "too_deep",
}  # fmt: skip


@pytest.mark.parametrize(("text", "fault"), MALFORMED.items(), ids=lambda value: value[:60])
def test_a_malformed_call_has_one_named_error(text: str, fault: str) -> None:
    _, calls = parse_calls(text)
    (result,) = call_tools(TOOLS, calls)
    if fault == "too_deep" and sys.version_info >= (3, 13):  # the parser of these versions has no limit of its own
        fault = "no_json"
    assert result.fault == fault
    assert result.content.startswith(f"error: {fault}: ")
    assert "\n" not in result.content


def test_calls_of_a_turn_are_counted() -> None:
    calls = [ToolCall(str(n), "calculator", '{"expression": "1 + 1"}') for n in range(MOST_CALLS + 2)]
    faults = [result.fault for result in call_tools(TOOLS, calls)]
    assert faults == [""] * MOST_CALLS + ["too_many_calls"] * 2
    assert [result.fault for result in call_tools(TOOLS, calls[:2], MOST_CALLS - 1)] == ["", "too_many_calls"]


def test_long_and_unsafe_results_are_cut_and_cleaned() -> None:
    (long,) = call_tools(TOOLS, [ToolCall("1", "repeat", '{"text": "ab", "times": 3000}')])
    assert long.content.startswith("ab" * (MOST_RESULT // 2))
    assert len(long.content) < MOST_RESULT + 40
    (unsafe,) = call_tools(TOOLS, [ToolCall("1", "repeat", '{"text": "\\u001b[31m", "times": 1}')])
    assert unsafe.content == "␛[31m"


@given(st.text(), st.text())
def test_any_call_has_a_result(name: str, arguments: str) -> None:
    results = call_tools(TOOLS, [ToolCall("1", name, arguments), ToolCall("2", "calculator", arguments)])
    assert all(result.fault for result in results)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("3 * 4", "12"), ("(3 + 4) * 1.5", "10.5"), ("2 / 3", "2/3 = 0.666667"), ("1,234 + 1", "1235"),
        ("7 // 2", "3"), ("-7 % 3", "2"), ("2 ^ 10", "1024"), ("12 ÷ 4 × 2", "6"), ("0.1 + 0.2", "0.3"),
        ("1e3", "1000"), ("2 ** -2", "0.25"), ("+5 - -5", "10"), ("10 / 8", "1.25"), ("0.5", "0.5"),
    ],
)  # fmt: skip
def test_the_calculator_is_exact(expression: str, value: str) -> None:
    assert calculator(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "", "x", "1 +", "1 / 0", "7 % 0", "0 ** -1", "9 ** 9 ** 9", "2 ** 0.5", "2 ** 1000", "(" * 100 + "1", "1" * 201,
        "abs(1)", "True", "1j", "'a' * 9", "[1] * 9", "1 if 1 else 2", "1 < 2", "1; 2", "lambda: 1", "10 ** 64 ** 2",
        "1 << 9", "~1", "\x00", "1e999", "1e999999999", "1e-999999999", "..", "0x", "1_",
    ],
)  # fmt: skip
def test_what_the_calculator_refuses(expression: str) -> None:
    with pytest.raises(ToolError):
        calculator(expression)


@given(st.text(alphabet="0123456789.+-*/%() e", max_size=60))
def test_the_calculator_never_fails(expression: str) -> None:
    with contextlib.suppress(ToolError):
        assert calculator(expression)


def test_the_maths_environments_offer_it() -> None:
    for id in ("maths-mini-v0", "gsm8k-v0"):
        env = make(id, calculator=True)
        assert [tool.__name__ for tool in env.tools(env.possible_agents[0])] == ["calculator"]
        assert make(id).tools(env.possible_agents[0]) == ()
    with pytest.raises(ConfigError, match="calculator must be true or false"):
        make("gsm8k-v0", calculator="yes")


@pytest.mark.parametrize("id", ["maths-mini-v0", "coding-mini-v0"])
def test_hostile_arguments_do_no_harm(id: str) -> None:
    keyword = "calculator" if id == "maths-mini-v0" else "own_tests"
    check_hostile(lambda: make(id, **{keyword: True}))


def run_tests(code: str, tests: str) -> str:
    env = make("coding-mini-v0", own_tests=True)
    env.reset(seed=0)
    call = ToolCall("1", "run_tests", json.dumps({"code": code, "tests": tests}))
    (result,) = call_tools(env.tools("aux"), [call])
    assert not result.fault
    return result.content


def test_agents_of_code_run_their_own_tests() -> None:
    good = "def double(x):\n    return 2 * x"
    assert run_tests(good, "assert double(2) == 4\nassert double(0) == 0") == "every statement ran without an error"
    told = run_tests(good, "assert double(2) == 5\nassert triple(1) == 3")
    assert "assert double(2) == 5: AssertionError" in told
    assert "NameError name 'triple' is not defined" in told
    assert make("coding-mini-v0").tools("aux") == ()


@pytest.mark.parametrize(
    ("code", "tests", "says"),
    [
        ("def f(:", "assert f()", "SyntaxError"),
        ("x = 1", "assert (", "the tests do not parse"),
        ("while True: pass", "assert True", "took longer"),
        ("def f(): pass", "while True: pass", "took longer"),
        ("x = 1", "raise SystemExit(0)", ""),
        ("x = 1", "import os; os._exit(0)", ""),
        ("x = 1", "open('/etc/passwd').read()", "Error"),
        ("def own_tests(): return []", "assert 1 == 2", "AssertionError"),
        ("x = '\"\"\"'", "assert x == '\"\"\"'", "every statement"),
        ("", "", "every statement"),
    ],
)  # fmt: skip
def test_any_code_and_tests_have_a_result(code: str, tests: str, says: str) -> None:
    told = run_tests(code, tests)
    assert says in told
    assert told


def test_demonstrations_call_the_calculator_and_answer_with_its_result() -> None:
    """A third of the prompts has no tool, a third a tool, a third the result of a call."""
    demos = with_calculator(1200, seed=3)
    assert demos == with_calculator(1200, seed=3)
    results = [(talk[-1].content, text) for talk, text in demos if talk[-1].role == "tool"]
    assert 300 < len(results) < 500
    assert all(text == f"#### {result}" for result, text in results)
    calls = [call for talk, text in demos if talk[-1].role == "user" for call in parse_calls(text)[1]]
    assert 150 < len(calls) < 250
    assert all(not result.fault for call in calls for result in call_tools([calculator], [call]))
    assert all(talk[0].content.startswith("Tool calculator(") for talk, text in demos if "tool_call" in text)


def test_demonstrations_run_the_first_reading_and_are_right_behind_its_report() -> None:
    demos = own_tests.demonstrations(1200, seed=3)
    assert demos == own_tests.demonstrations(1200, seed=3)
    tests_of = {talk: talk[0].content.partition("Your part passes:\n")[2] for talk, _ in demos}
    reports = [(talk, text) for talk, text in demos if talk[-1].role == "tool"]
    assert 300 < len(reports) < 500
    assert 0.4 < sum(talk[-1].content == TESTS_PASSED for talk, _ in reports) / len(reports) < 0.6
    for talk, text in reports[::20]:
        (call,) = talk[1].calls
        assert run_tests(**json.loads(call.arguments)) == talk[-1].content
        assert run_tests(text, tests_of[talk]) == TESTS_PASSED
    calls = [(talk, call) for talk, text in demos if talk[-1].role == "user" for call in parse_calls(text)[1]]
    assert 150 < len(calls) < 250
    assert all(json.loads(call.arguments)["tests"] == tests_of[talk] for talk, call in calls)
    assert all(talk[0].content.startswith("Tool run_tests(") for talk, _ in calls)
    direct = [(talk, text) for talk, text in demos if talk[-1].role == "user" and text.startswith("def ")]
    right = [run_tests(text, tests_of[talk]) == TESTS_PASSED for talk, text in direct[::8]]
    assert 0.35 < sum(right) / len(right) < 0.65


@pytest.mark.parametrize(
    ("problem", "expression"),
    [
        (MathProblem(7, (Operation("-", 5, 0), Operation("-", 2, 0))), "7 - 5 - 2"),
        (MathProblem(3, (Operation("+", 4, 0), Operation("*", 2, 0))), "(3 + 4) * 2"),
        (MathProblem(3, (Operation("*", 2, 0), Operation("+", 4, 0)), "Ada", "nuts"), "3 * 2 + 4"),
    ],
)
def test_the_expression_of_a_problem_has_its_value(problem: MathProblem, expression: str) -> None:
    assert problem.expression == expression
    assert calculator(expression) == str(problem.results[-1])
