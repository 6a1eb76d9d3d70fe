"""Tools over OpenAI's protocol, with the real client on loopback."""

from __future__ import annotations

import json

import openai
import pytest

from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.remote.chat import RemoteChat, RemotePolicy
from palaver.agents.serving.app import make_app
from palaver.agents.serving.server import serving
from palaver.core import Completion, Message, Request, Sampling, ToolCall, ToolSchema
from palaver.utils.tool_calls import parse_calls
from tests.agents.serving.test_serving import HELLO, environment, post  # noqa: F401 - a fixture
from tests.models import byte_tokenizer, tiny_qwen3

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "calculator",
            "description": "Evaluate arithmetic.",
            "parameters": {"type": "object", "properties": {"expression": {"type": "string"}}},
        },
    }
]
WRITTEN = 'Well.<tool_call>{"name": "calculator", "arguments": {"expression": "3 * 4"}}</tool_call>'


class Caller:
    """Calls a tool until it has a result, which it repeats; without tools it writes what it would have called."""

    name = "caller"

    def act(self, requests):
        return [[self.answer(request)] * len(request.seeds) for request in requests]

    def answer(self, request: Request) -> Completion:
        last = request.conversation[-1]
        if last.role == "tool":
            called = request.conversation[-2].calls[0]
            return Completion(f"{called.name} {json.loads(called.arguments)['expression']} = {last.content}")
        if not request.tools:
            return Completion(WRITTEN)
        text, calls = parse_calls(WRITTEN, request.conversation)
        return Completion(text, calls=calls)


@pytest.fixture(scope="module")
def caller():
    with serving(make_app({"m": Caller()})) as found:
        yield found


def test_the_openai_client_calls_a_tool_and_sends_its_result(caller: str) -> None:
    client = openai.OpenAI(api_key="none", base_url=caller, timeout=60)
    messages: list = [{"role": "user", "content": "3 times 4?"}]
    first = client.chat.completions.create(model="m", messages=messages, tools=TOOLS).choices[0]
    assert (first.finish_reason, first.message.content) == ("tool_calls", "Well.")
    (call,) = first.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("calculator", {"expression": "3 * 4"})
    messages += [first.message, {"role": "tool", "tool_call_id": call.id, "content": "12"}]
    second = client.chat.completions.create(model="m", messages=messages, tools=TOOLS).choices[0]
    assert (second.finish_reason, second.message.content) == ("stop", "calculator 3 * 4 = 12")


def test_calls_in_a_stream_have_an_index(caller: str) -> None:
    client = openai.OpenAI(api_key="none", base_url=caller, timeout=60)
    stream = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": "x"}], tools=TOOLS, stream=True
    )
    choices = [chunk.choices[0] for chunk in stream]
    assert [(call.index, call.function.name) for call in choices[0].delta.tool_calls] == [(0, "calculator")]
    assert choices[-1].finish_reason == "tool_calls"


def test_a_remote_policy_calls_tools(caller: str) -> None:
    schema = ToolSchema("calculator", "Evaluate arithmetic.", '{"type": "object", "properties": {}}')
    policy = RemotePolicy(RemoteChat("m", caller))
    talk = (Message("user", "3 times 4?"),)
    ((first,),) = policy.act([Request("a", talk, (0,), tools=(schema,))])
    assert first == Completion("Well.", calls=(ToolCall("call00000", "calculator", '{"expression": "3 * 4"}'),))
    talk += (Message("assistant", first.text, first.calls), Message("tool", "12", call_id="call00000"))
    ((second,),) = policy.act([Request("a", talk, (0,), tools=(schema,))])
    assert (second.text, second.calls) == ("calculator 3 * 4 = 12", ())
    ((plain,),) = policy.act([Request("a", talk[:1], (0,))])
    assert (plain.text, plain.calls) == (WRITTEN, ())


def test_tool_choice_none_shows_no_tools(caller: str) -> None:
    _, _, reply = post(caller, HELLO | {"tools": TOOLS, "tool_choice": "none"})
    assert reply["choices"][0]["message"] == {"role": "assistant", "content": WRITTEN, "refusal": None}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"tools": [{"type": "function"}]}, "tools.0.function"),
        ({"tools": [{"type": "search", "function": {"name": "x"}}]}, "tools.0.type"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, "tools.0.function.name"),
        ({"tools": [{"type": "function", "function": {"name": "x", "parameters": []}}]}, "parameters"),
        ({"tools": TOOLS * 129}, "tools: "),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"messages": [{"role": "tool", "content": "x"}]}, "has a tool_call_id"),
        ({"messages": [{"role": "user", "content": "x", "tool_call_id": "a"}]}, "has a tool_call_id"),
        ({"messages": [{"role": "user"}]}, "needs content"),
        ({"messages": [{"role": "user", "content": "", "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "x", "arguments": ""}}]}]}, "only an assistant"),
        ({"messages": [{"role": "assistant", "tool_calls": [{"id": "a", "type": "function"}]}]}, "calls.0.function"),
    ],
)  # fmt: skip
def test_faulty_tools_are_refused_in_one_line(caller: str, change: dict, says: str) -> None:
    status, _, reply = post(caller, HELLO | change)
    assert status == 400
    assert says in reply["error"]["message"]
    assert "\n" not in reply["error"]["message"]


@pytest.mark.parametrize("streamed", [False, True])
def test_lone_surrogates_of_a_policy_are_question_marks(streamed: bool) -> None:
    class Broken:
        name = "broken"

        def act(self, requests):
            return [[Completion("a \ud800", calls=(ToolCall("1", "calculator", '"\ud800"'),))] for _ in requests]

    with serving(make_app({"m": Broken()})) as url:
        client = openai.OpenAI(api_key="none", base_url=url, timeout=60, max_retries=0)
        asked = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": TOOLS}
        if streamed:
            answer = next(iter(client.chat.completions.create(**asked, stream=True))).choices[0].delta
        else:
            answer = client.chat.completions.create(**asked).choices[0].message
    assert (answer.content, answer.tool_calls[0].function.arguments) == ("a ?", '"?"')


def test_a_model_reads_tools_and_results() -> None:
    """A model of random weights calls nothing; the prompts are those of the local policy."""
    model = LLMPolicy(tiny_qwen3(max_position_embeddings=256), byte_tokenizer(template=True), name="m")
    call = {"id": "call00000", "type": "function", "function": {"name": "calculator", "arguments": "{}"}}
    messages = [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call00000", "content": "12"},
    ]
    schema = ToolSchema("calculator", "Evaluate arithmetic.", '{"type": "object", "properties": {}}')
    talk = (
        Message("user", "x"),
        Message("assistant", "", (ToolCall("call00000", "calculator", "{}"),)),
        Message("tool", "12", call_id="call00000"),
    )
    ((said,),) = model.act([Request("a", talk, (3,), Sampling(max_tokens=5), (schema,))])
    with serving(make_app({"m": model})) as url:
        _, _, reply = post(url, HELLO | {"messages": messages, "tools": [schema.to_dict()]})
    assert reply["usage"]["prompt_tokens"] == len(said.prompt_ids)
    assert reply["choices"][0]["message"]["content"] == said.text
