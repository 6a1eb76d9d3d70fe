"""Calls of tools in the text of a model.

    Let me compute that. <tool_call>{"name": "calculator", "arguments": {"expression": "3 * 4"}}</tool_call>

The form is that of Hermes and Qwen; an answer of nothing but a call, or a list of calls, in JSON is read too, as Llama
3 and Mistral write them. Any text may come: what cannot be parsed is a call without a name whose arguments are the text
as it was written, so that it can be answered with an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from palaver.core import Completion, Conversation, ToolCall, ToolSchema

OPEN, CLOSE = "<tool_call>", "</tool_call>"
MOST_PARSED = 64  # calls of one answer; what comes after them is a part of the last, which cannot be parsed then
UNNAMED = "unnamed"  # the tool of a call that names none
_BLOCK = re.compile(f"{OPEN}(.*?)(?:{CLOSE}|\\Z)", re.DOTALL)


def call_id(conversation: Conversation, index: int) -> str:
    """Id of call `index` of the next answer.

    It has nine letters and digits, which every known template accepts.
    """
    return f"call{sum(len(message.calls) for message in conversation) + index:05d}"


def parse_calls(text: str, conversation: Conversation = ()) -> tuple[str, tuple[ToolCall, ...]]:
    """Text of an answer without its calls, and the calls in order.

    >>> parse_calls('Well. <tool_call>{"name": "now", "arguments": {}}</tool_call>')
    ('Well.', (ToolCall(id='call00000', name='now', arguments='{}'),))
    """
    blocks = list(_BLOCK.finditer(text))
    if not blocks:
        bare = _bare_calls(text)
        return ("" if bare else text), tuple(_parsed(body, call_id(conversation, n)) for n, body in enumerate(bare))
    bodies = [block[1] for block in blocks]
    if len(bodies) > MOST_PARSED:
        bodies[MOST_PARSED - 1 :] = [text[blocks[MOST_PARSED - 1].start(1) :]]
    calls = [_parsed(body, call_id(conversation, index)) for index, body in enumerate(bodies)]
    return _BLOCK.sub("", text).strip(), tuple(calls)


def _bare_calls(text: str) -> list[str]:
    """JSON texts of the calls of an answer that is nothing but calls; empty for any other."""
    if text.strip()[:1] not in ("{", "["):
        return []
    try:
        values = json.loads(text)
        calls = values if isinstance(values, list) else [values]
        whole = all(isinstance(c, dict) and "name" in c and {"arguments", "parameters"} & c.keys() for c in calls)
        return [json.dumps(call, ensure_ascii=False) for call in calls] if whole and len(calls) <= MOST_PARSED else []
    except (ValueError, RecursionError):
        return []


def _parsed(body: str, id: str) -> ToolCall:
    """A call of its JSON text; without a name if it is not `{"name": text, "arguments": ...}`."""
    try:
        call = json.loads(body)
        name = call.get("name") if isinstance(call, dict) else None
        arguments = call.get("arguments", call.get("parameters")) if isinstance(call, dict) else None
        text = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
    except (ValueError, RecursionError):
        return ToolCall(id, "", body.strip())
    if not isinstance(name, str) or not name or arguments is None:
        return ToolCall(id, "", body.strip())
    return ToolCall(id, name, text)


def written(calls: Iterable[ToolCall]) -> str:
    """Text of calls as `parse_calls` reads it; unparsable ones as they were written."""
    return "".join(f"{OPEN}{_body(call)}{CLOSE}" for call in calls)


def transcript(completion: Completion) -> str:
    """Text of a completion for readers, behind its calls and their results, a line each."""
    lines = []
    for step in completion.steps:
        results = {result.call_id: result.content for result in step.results}
        lines.append(step.completion.text)
        for call in step.completion.calls:
            lines += [f"[call {call.name or UNNAMED}] {call.arguments}", f"[result] {results.get(call.id, '')}"]
    return "\n".join([*filter(None, lines), completion.text])


def tool_line(tool: ToolSchema) -> str:
    """Tool in one line, without the types of its arguments' parts.

    >>> tool_line(ToolSchema("now", "Return the time.", '{"properties": {"zone": {"type": "string"}}}'))
    'Tool now(zone: string): Return the time.'
    """
    schema = json.loads(tool.parameters)
    properties = schema.get("properties") if isinstance(schema, dict) else None
    arguments = ", ".join(
        f"{name}: {about.get('type', 'any') if isinstance(about, dict) else 'any'}"
        for name, about in (properties.items() if isinstance(properties, dict) else ())
    )
    return f"Tool {tool.name}({arguments}): {tool.description}"


def _body(call: ToolCall) -> str:
    if not call.name:
        return call.arguments
    return f'{{"name": {json.dumps(call.name, ensure_ascii=False)}, "arguments": {call.arguments}}}'
