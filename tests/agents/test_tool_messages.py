"""Tools in prompts and answers: forms of chat templates, the plain form, and text that poses as a call."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerFast

from palaver.agents.base.control_tokens import literals
from palaver.agents.llm.model.chat_template import Renderer
from palaver.core import Message, PolicyError, ToolCall, ToolSchema
from palaver.utils.tool_calls import MOST_PARSED, parse_calls, written
from tests.agents.chat_tokenizers import FAMILIES, qwen
from tests.models import byte_tokenizer

PARAMETERS = {"type": "object", "properties": {"expression": {"type": "string"}}, "required": ["expression"]}
CALCULATOR = ToolSchema("calculator", "Evaluate arithmetic.", json.dumps(PARAMETERS))
CALL = ToolCall("call00000", "calculator", '{"expression": "3 * 4"}')
TALK = (
    Message("user", "3 times 4?"),
    Message("assistant", "Let me see.", (CALL,)),
    Message("tool", "12", call_id="call00000"),
)
MARKS = ("<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>")
TRL = importlib.util.find_spec("trl")
TEMPLATES = sorted((Path(TRL.origin).parent / "chat_templates").glob("*.jinja")) if TRL and TRL.origin else []


def known(path: Path) -> PreTrainedTokenizerFast:
    """Tokenizer with a template of TRL; skips those that take lists of parts in place of texts."""
    tokenizer = qwen()
    tokenizer.chat_template = path.read_text(encoding="utf-8")
    tokenizer.bos_token = "<|endoftext|>"
    try:
        shown = tokenizer.decode(Renderer(tokenizer).ids((Message("user", "word"), Message("assistant", "answer"))))
    except PolicyError:
        shown = ""
    if "word" not in shown:
        pytest.skip("its messages are lists of parts")
    return tokenizer


def test_a_template_with_tools_gets_them_in_its_own_form() -> None:
    tokenizer = byte_tokenizer()
    tokenizer.chat_template = (
        "{{ tools | tojson }}{% for m in messages %}[{{ m.role }}]{{ m.content }}{% for c in m.tool_calls or [] %}"
        "({{ c.function.name }} {{ c.function.arguments | tojson }} {{ c.id }}){% endfor %}"
        "{% if m.role == 'tool' %}for {{ m.tool_call_id }} of {{ m.name }}{% endif %}{% endfor %}"
    )
    shown = tokenizer.decode(Renderer(tokenizer).ids(TALK, (CALCULATOR,)))
    schemas, _, rest = shown.partition("[user]")
    assert json.loads(schemas) == [
        {"type": "function", "function": {"name": "calculator", "description": "Evaluate arithmetic.",
                                          "parameters": PARAMETERS}}
    ]  # fmt: skip
    called = '(calculator {"expression": "3 * 4"} call00000)'
    assert rest == f"3 times 4?[assistant]Let me see.{called}[tool]12for call00000 of calculator"


def test_a_template_without_tools_gets_the_plain_form() -> None:
    tokenizer = byte_tokenizer(template=True)
    tokenizer.chat_template = (
        "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant:"
    )
    ids = Renderer(tokenizer).ids(TALK, (CALCULATOR,))
    assert ids == tokenizer.encode(
        "<|im_start|>user\nTool calculator(expression: string): Evaluate arithmetic.\n3 times 4?<|im_end|>\n"
        '<|im_start|>assistant\nLet me see.<tool_call>{"name": "calculator", "arguments": {"expression": "3 * 4"}}'
        "</tool_call><|im_end|>\n<|im_start|>tool\n12<|im_end|>\n<|im_start|>assistant:"
    )


def test_without_a_role_of_their_own_results_are_a_users() -> None:
    """The template of Llama 2 has two roles, and a conversation without a template has none."""
    two = (*TALK, Message("tool", "13", call_id="call00001"))
    shown = FAMILIES["llama"]().decode(Renderer(FAMILIES["llama"]()).ids(two, (CALCULATOR,)))
    assert shown.endswith(
        "<tool_response>12</tool_response>\n<tool_response>13</tool_response> [/INST]".replace("\n", " ")
    ) or ("<tool_response>12</tool_response>" in shown and "<tool_response>13</tool_response>" in shown)
    plain = byte_tokenizer()
    assert plain.decode(Renderer(plain).ids(two)).endswith(
        "<tool_response>12</tool_response>\n<tool_response>13</tool_response>\n"
    )


def test_a_template_of_one_call_falls_back_to_the_plain_form() -> None:
    tokenizer = byte_tokenizer(template=True)
    tokenizer.chat_template = (
        "{% for m in messages %}{% if m.tool_calls and m.tool_calls | length > 1 %}{{ raise_exception('one call') }}"
        "{% endif %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}"
    )
    both = Message("assistant", "", (CALL, ToolCall("call00001", "", "[[[")))
    shown = tokenizer.decode(Renderer(tokenizer).ids((TALK[0], both)))
    assert shown.count("<tool_call>") == 2
    assert "<tool_call>[[[</tool_call>" in shown


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_no_text_poses_as_a_call_or_a_result(path: Path) -> None:
    """All marks of a template are tokens here: a conversation that spells them has as many as one that does not."""
    tokenizer = known(path)
    marks = sorted({*literals(tokenizer.chat_template), *MARKS, "<|im_start|>", "<|im_end|>"})
    tokenizer.add_tokens(marks)
    mark_ids = set(tokenizer.convert_tokens_to_ids(marks))
    renderer = Renderer(tokenizer)

    def count(text: str) -> dict[int, int]:
        call = ToolCall("call00000", "calculator", json.dumps({"expression": text}))
        talk = (
            Message("user", f"a{text}"),
            Message("assistant", f"b{text}", (call,)),
            Message("tool", f"c{text}", call_id="call00000"),
        )
        ids = renderer.ids(talk, (CALCULATOR,))
        return {token: ids.count(token) for token in mark_ids if token in ids}

    forged = [mark for mark in marks if "think" not in mark and "thought" not in mark]  # a template reads those itself
    assert count("".join(forged)) == count("x")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.stem)
def test_a_known_template_shows_tools_calls_and_results(path: Path) -> None:
    tokenizer = known(path)
    text = tokenizer.decode(Renderer(tokenizer).ids(TALK, (CALCULATOR,)))
    assert ["Evaluate arithmetic." in text, "3 * 4" in text, "12" in text] == [True] * 3


@pytest.mark.parametrize(
    ("text", "content", "calls"),
    [
        ("no call", "no call", []),
        ('<tool_call>{"name": "a", "arguments": {"x": 1}}</tool_call>', "", [("a", '{"x": 1}')]),
        ('b <tool_call>\n{"name": "a", "parameters": {}}\n</tool_call> c', "b  c", [("a", "{}")]),
        ('<tool_call>{"name": "a", "arguments": "{\\"x\\": 1}"}</tool_call>', "", [("a", '{"x": 1}')]),
        ('<tool_call>{"name": "a", "arguments": {}}', "", [("a", "{}")]),
        ("<tool_call>", "", [("", "")]),
        ("<tool_call>{</tool_call>", "", [("", "{")]),
        ("<tool_call>[1]</tool_call>", "", [("", "[1]")]),
        ('<tool_call>{"name": 5, "arguments": {}}</tool_call>', "", [("", '{"name": 5, "arguments": {}}')]),
        ('<tool_call>{"name": "a"}</tool_call>', "", [("", '{"name": "a"}')]),
        ("</tool_call>", "</tool_call>", []),
        ('{"name": "a", "parameters": {"x": 1}}', "", [("a", '{"x": 1}')]),
        ('[{"name": "a", "arguments": {}}, {"name": "b", "arguments": {}}]', "", [("a", "{}"), ("b", "{}")]),
        ('{"name": "a"}', '{"name": "a"}', []),
        ('[{"name": "a", "arguments": {}}, 5]', '[{"name": "a", "arguments": {}}, 5]', []),
        ("[]", "[]", []),
        ("{", "{", []),
    ],
)  # fmt: skip
def test_calls_of_a_text(text: str, content: str, calls: list[tuple[str, str]]) -> None:
    got, found = parse_calls(text)
    assert (got, [(call.name, call.arguments) for call in found]) == (content, calls)
    assert [call.id for call in found] == [f"call{n:05d}" for n in range(len(calls))]


def test_ids_go_on_in_a_conversation() -> None:
    assert parse_calls("<tool_call>{}</tool_call>", TALK)[1][0].id == "call00001"


def test_hostile_calls_are_bounded() -> None:
    assert parse_calls("<tool_call>" + "[" * 1_000_000)[1][0].name == ""
    _, calls = parse_calls('<tool_call>{"name": "a", "arguments": {}}</tool_call>' * 1000)
    assert [call.name for call in calls] == ["a"] * (MOST_PARSED - 1) + [""]


@pytest.mark.parametrize("depth", [10, 45, 60, 300, 900, 3000, 20_000])
def test_calls_of_any_depth_are_parsed_and_shown(depth: int) -> None:
    called = '{"name": "x", "arguments": {"a": ' + "[" * depth + "]" * depth + "}}"
    tokenizer = qwen()
    tokenizer.chat_template = "{{ tools | tojson }}{% for m in messages %}{{ m | tojson }}{% endfor %}"
    for said in (f"<tool_call>{called}</tool_call>", called):
        text, calls = parse_calls(said)
        talk = (TALK[0], Message("assistant", text, calls), Message("tool", "12", call_id="call00000"))
        for renderer in (Renderer(tokenizer), Renderer(tokenizer, "plain")):
            assert renderer.ids(talk, (CALCULATOR,))


def test_no_id_poses_as_a_mark() -> None:
    tokenizer = byte_tokenizer(template=True)
    tokenizer.chat_template = (
        "{{ tools }}{% for m in messages %}{{ m.content }}{{ m.tool_call_id }}"
        "{% for c in m.tool_calls or [] %}{{ c.id }}{{ c.function }}{% endfor %}{% endfor %}"
    )
    call = ToolCall("<|im_start|>", "x", "{}")
    ids = Renderer(tokenizer).ids((TALK[0], Message("assistant", "", (call,)), Message("tool", "1", call_id=call.id)))
    assert tokenizer.convert_tokens_to_ids("<|im_start|>") not in ids


@given(st.text(), st.lists(st.tuples(st.text(min_size=1), st.dictionaries(st.text(), st.text() | st.integers()))))
def test_what_is_written_is_read_again(text: str, calls: list[tuple[str, dict[str, object]]]) -> None:
    made = [ToolCall(f"call{n:05d}", name, json.dumps(values)) for n, (name, values) in enumerate(calls)]
    if any(mark in json.dumps([name, values], ensure_ascii=False) for name, values in calls for mark in MARKS):
        return
    _, found = parse_calls(f"{text}{written(made)}" if "<tool_call>" not in text else written(made))
    assert [(call.name, json.loads(call.arguments)) for call in found[: MOST_PARSED - 1]] == [
        (name, values) for name, values in calls[: MOST_PARSED - 1]
    ]
