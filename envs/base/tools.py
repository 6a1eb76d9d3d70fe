"""Tools of an environment: schemas from type hints, and calls within limits.

    def calculator(expression: str) -> str:
        \"\"\"Evaluate arithmetic exactly.

        Args:
            expression: numbers, + - * / and parentheses.
        \"\"\"

A tool is a function with type hints and a docstring that returns a text. It may read the state of its environment, and
never changes it: candidates of one turn call it side by side. It raises `ToolError` where its arguments make no sense.
Calls come from a model: whatever it writes, every call has one result, a text or a named error.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
import typing
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Never

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model

from palaver.core import ConfigError, ToolCall, ToolSchema, did_you_mean
from palaver.text import clean, first_fault, one_line

ToolFunction = Callable[..., str]
Fault = Literal[
    "no_json", "no_call", "no_name", "unknown_tool", "not_an_object", "duplicate_argument", "not_finite", "too_deep",
    "missing_argument", "unknown_argument", "wrong_type", "wrong_value", "too_long", "too_many_calls", "refused",
]  # fmt: skip
MOST_CALLS = 8  # of one agent in one turn
MOST_ARGUMENTS = 4096  # characters of the arguments of a call
MOST_RESULT = 2048  # characters of a result; the rest is cut
_ARGUMENT = re.compile(r"^ {4}(\w+): (.+?)(?=^ {4}\S|^\S|\Z)", re.MULTILINE | re.DOTALL)


class ToolError(Exception):
    """A call that has an error in place of a result.

    Attributes:
        fault: name of the error; `refused` is a tool's own.
    """

    def __init__(self, message: str, fault: Fault = "refused") -> None:
        super().__init__(message)
        self.fault: Fault = fault


@dataclass(frozen=True, slots=True)
class ToolResult:
    """Result of a call, as the model reads it.

    Attributes:
        content: its text.
        fault: name of the error; "" if there is none.
    """

    content: str
    fault: Fault | Literal[""] = ""


def schema_of(tool: ToolFunction) -> ToolSchema:
    """Schema of a tool for models.

    Raises:
        ConfigError: it has no docstring, or an argument without a type hint.
    """
    return _described(getattr(tool, "__func__", tool))[0]


def call_tools(tools: Sequence[ToolFunction], calls: Sequence[ToolCall], before: int = 0) -> list[ToolResult]:
    """Results of calls, in order.

    Args:
        tools: of the agent.
        calls: as its model wrote them.
        before: calls of the agent in this turn that have a result already.
    """
    by_name = {tool.__name__: tool for tool in tools}
    return [_result(by_name, call, before + index) for index, call in enumerate(calls)]


def _result(tools: dict[str, ToolFunction], call: ToolCall, number: int) -> ToolResult:
    try:
        if number >= MOST_CALLS:
            raise ToolError(f"a turn has at most {MOST_CALLS} calls", "too_many_calls")
        content = _called(tools, call)
    except ToolError as error:
        return ToolResult(f"error: {error.fault}: {one_line(str(error), 300)}", error.fault)
    return ToolResult(clean(content, MOST_RESULT))


def _called(tools: dict[str, ToolFunction], call: ToolCall) -> str:
    if len(call.arguments) > MOST_ARGUMENTS:
        raise ToolError(f"the arguments have {len(call.arguments)} characters; at most {MOST_ARGUMENTS}", "too_long")
    if not call.name:
        _refuse_unreadable(call.arguments)
    if call.name not in tools:
        hint = did_you_mean(call.name[:60], tools)
        raise ToolError(f"there is no tool {one_line(call.name, 60)!r}.{hint}", "unknown_tool")
    values = _parsed(call.arguments)
    if not isinstance(values, dict):
        raise ToolError("the arguments are no JSON object", "not_an_object")
    tool = tools[call.name]
    _, model = _described(getattr(tool, "__func__", tool))
    try:
        arguments = model.model_validate(values)
    except ValidationError as error:
        kind = error.errors(include_url=False, include_input=False)[0]["type"]
        named: dict[str, Fault] = {"missing": "missing_argument", "extra_forbidden": "unknown_argument"}
        fault = named.get(kind, "wrong_type" if kind.endswith("_type") else "wrong_value")
        raise ToolError(first_fault(error), fault) from None
    return tool(**{name: getattr(arguments, name) for name in model.model_fields})


def _refuse_unreadable(text: str) -> Never:
    """Name what is wrong with the text of a call that has no name."""
    if not text.strip():
        raise ToolError('the call is empty; write {"name": ..., "arguments": {...}}', "no_call")
    call = _parsed(text)
    if not isinstance(call, dict):
        raise ToolError('a call is an object: {"name": ..., "arguments": {...}}', "no_call")
    if not isinstance(call.get("name"), str) or not call["name"]:
        raise ToolError("the call has no name of a tool", "no_name")
    raise ToolError("the call has no arguments; write {} for none", "not_an_object")


def _parsed(text: str) -> Any:
    """JSON data without duplicate names and infinite numbers."""
    try:
        return json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse_constant)
    except RecursionError:
        raise ToolError("the call is nested too deeply", "too_deep") from None
    except ValueError as error:
        raise ToolError(f"this is no JSON: {error}", "no_json") from None


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ToolError("an argument is given twice", "duplicate_argument")
    return values


def _refuse_constant(name: str) -> Never:
    raise ToolError(f"{name} is no number that can be used", "not_finite")


@functools.cache
def _described(function: ToolFunction) -> tuple[ToolSchema, type[BaseModel]]:
    """Schema of a function, and the model of its arguments."""
    name, doc = function.__name__, inspect.getdoc(function) or ""
    if not doc:
        raise ConfigError(f"the tool {name!r} needs a docstring, which tells the model what it does")
    hints = typing.get_type_hints(function)
    _, _, section = doc.partition("\nArgs:\n")
    about = {match[1]: one_line(match[2], 300) for match in _ARGUMENT.finditer(section)}
    fields: dict[str, Any] = {}
    for argument in inspect.signature(function).parameters.values():
        if argument.name == "self":
            continue
        if argument.name not in hints:
            raise ConfigError(f"the argument {argument.name!r} of the tool {name!r} needs a type hint")
        default = ... if argument.default is inspect.Parameter.empty else argument.default
        fields[argument.name] = (hints[argument.name], Field(default, description=about.get(argument.name)))
    strict = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)
    model = create_model(name, __config__=strict, **fields)
    schema = model.model_json_schema()
    for part in (schema, *schema.get("properties", {}).values()):
        part.pop("title", None)
    return ToolSchema(name, one_line(doc.split("\n\n")[0], 300), json.dumps(schema)), model
