"""OpenAI's chat completions: requests from questions, answers or failures from replies."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Mapping, Sequence
from email.utils import parsedate_to_datetime
from typing import Any

import openai
from pydantic import BaseModel, Field, ValidationError

from palaver.agents.base.chat import Answer, Question
from palaver.agents.remote.options import Price, estimated_tokens
from palaver.core import Message, ToolCall
from palaver.text import first_fault, one_line, without_surrogates
from palaver.utils.tool_calls import UNNAMED, call_id

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
AGAIN = (408, 409, 425)  # in addition to 429 and 5xx: statuses that another attempt may not meet


class CallError(Exception):
    """One attempt that brought no answer.

    Attributes:
        word: `transport`, `timeout`, `rate limit`, `refusal`, `unparseable` or `budget`.
        again: True if another attempt may succeed.
        after: seconds that the server requests to wait before it.
        billed: True if the server may have charged for it: it had the request and did not refuse it.
    """

    def __init__(
        self, word: str, detail: str, *, again: bool = False, after: float | None = None, billed: bool = False
    ) -> None:
        super().__init__(f"{word}: {one_line(detail, 300)}")
        self.word = word
        self.again = again
        self.after = after
        self.billed = billed


def failed(error: openai.OpenAIError) -> CallError:
    """Translate an error of the client."""
    if isinstance(error, openai.APIStatusError):
        return _refused(error)
    if isinstance(error, openai.APIConnectionError):
        cause = error.__cause__
        # the HTTP library behind the client changes with its version, its names do not
        unmet = type(cause).__name__ in ("ConnectError", "ConnectTimeout", "UnsupportedProtocol", "ProxyError")
        word = "timeout" if isinstance(error, openai.APITimeoutError) else "transport"
        return CallError(word, str(cause or "") or type(cause or error).__name__, again=True, billed=not unmet)
    return CallError("transport", str(error))


def _refused(error: openai.APIStatusError) -> CallError:
    status, after = error.status_code, retry_after(error.response.headers, time.time())
    detail = f"HTTP {status}: {_server_message(error)}"
    if status == 429:
        return CallError("rate limit", detail, again=error.code != "insufficient_quota", after=after)
    if error.code in ("content_filter", "content_policy_violation"):
        return CallError("refusal", detail)
    return CallError("transport", detail, again=status >= 500 or status in AGAIN, after=after)


def _server_message(error: openai.APIStatusError) -> str:
    """The server's own words: those of OpenAI's error shape, else the beginning of what it sent."""
    if isinstance(error.body, dict) and isinstance(error.body.get("message"), str):
        return str(error.body["message"])
    return error.response.text.strip()[:200] or "no words"


def retry_after(headers: Mapping[str, str], now: float) -> float | None:
    """Seconds to wait according to a reply's headers; None if they have none.

    The headers are `retry-after-ms`, or `Retry-After` in seconds or as a date.

    Args:
        headers: names in small letters, or in any where the mapping does not mind.
        now: seconds since the epoch, to measure a date by.
    """
    exact = _parse_number(headers.get("retry-after-ms"))
    if exact is not None:
        return exact / 1000
    header = headers.get("retry-after")
    seconds = _parse_number(header)
    if seconds is not None or header is None:
        return seconds
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now)
    except (TypeError, ValueError, OverflowError):  # neither a number nor a date
        return None


def _parse_number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if 0 <= value < math.inf else None


class _Likely(BaseModel):
    token: str
    logprob: float


class _Token(BaseModel):
    top_logprobs: list[_Likely] = Field(default_factory=list)


class _Logprobs(BaseModel):
    content: list[_Token] | None = None


class _Function(BaseModel):
    name: str = ""
    arguments: str = ""


class _ToolCall(BaseModel):
    function: _Function = Field(default_factory=_Function)


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None
    tool_calls: list[_ToolCall] | None = None


class _Choice(BaseModel):
    message: _Message
    finish_reason: str | None = None
    logprobs: _Logprobs | None = None


class _Usage(BaseModel):
    prompt_tokens: int = Field(ge=0)
    completion_tokens: int = Field(ge=0)


class Reply(BaseModel):
    """Fields that are read of a chat completion; all others are ignored."""

    choices: list[_Choice] = Field(min_length=1)
    usage: _Usage | None = None


def body(model: str, question: Question, limit_field: str) -> dict[str, Any]:
    """The keywords of one call of the client.

    Lone surrogates, which JSON cannot carry, become question marks. Top-k is no part of the protocol: it is sent, as
    other servers read it, only where requested.

    Args:
        model: its name on the server.
        question: to be sent.
        limit_field: the server's name for the most tokens of an answer.
    """
    sampling = question.sampling
    request_body: dict[str, Any] = {
        "model": model,
        "messages": [_message(message) for message in question.conversation],
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": question.seed,
        limit_field: sampling.max_tokens,
    }
    if sampling.stop:
        request_body["stop"] = [without_surrogates(text) for text in sampling.stop]
    if sampling.top_k:
        request_body["extra_body"] = {"top_k": sampling.top_k}
    if question.top_logprobs:
        request_body |= {"logprobs": True, "top_logprobs": question.top_logprobs}
    if question.tools:
        request_body["tools"] = [tool.to_dict() for tool in question.tools]
    if question.schema:
        # a server may refuse to be strict about a schema that leaves other properties open
        strict = question.schema.get("additionalProperties") is False
        form = {"name": "answer", "schema": dict(question.schema), "strict": strict}
        request_body["response_format"] = {"type": "json_schema", "json_schema": form}
    return request_body


def _message(message: Message) -> dict[str, Any]:
    """Message of the protocol; names of tools that it does not allow become `UNNAMED`."""
    entry: dict[str, Any] = {"role": message.role, "content": without_surrogates(message.content)}
    if message.role == "tool":
        entry["tool_call_id"] = message.call_id
    if message.calls:
        entry["tool_calls"] = [_sendable_call(call).to_dict() for call in message.calls]
    return entry


def _sendable_call(call: ToolCall) -> ToolCall:
    name = call.name if _NAME.fullmatch(call.name) else UNNAMED
    return ToolCall(call.id, name, without_surrogates(call.arguments))


def read(content: bytes) -> Reply:
    """A server's reply.

    Raises:
        CallError: it is not JSON, or not a chat completion with a choice.
    """
    try:
        return Reply.model_validate_json(content)
    except ValidationError as error:
        raise CallError("unparseable", first_fault(error, "the reply"), again=True, billed=True) from None


def parse_reply(reply: Reply, question: Question, price: Price) -> Answer:
    """Make an answer of a reply, with its cost; unreported tokens are estimated.

    Calls of tools get ids of their own; they are read only if the question has tools, and then there may be no text.
    Text from a stop string on is cut off, whether the server did that or not.
    """
    choice = reply.choices[0]
    requested = choice.message.tool_calls if question.tools else None
    calls = tuple(
        ToolCall(call_id(question.conversation, index), call.function.name, call.function.arguments)
        for index, call in enumerate(requested or ())
    )
    text, usage = "" if calls and choice.message.content is None else choice.message.content, reply.usage
    if usage is None:
        prompt_tokens = sum(estimated_tokens(message.content) for message in question.conversation)
        cost = price.cost(prompt_tokens, estimated_tokens(text or ""))
    else:
        cost = price.cost(usage.prompt_tokens, usage.completion_tokens)
    if choice.message.refusal or choice.finish_reason == "content_filter":
        why = choice.message.refusal or "the server's filter withheld the answer"
        return Answer("", cost=cost, failure=f"refusal: {why[:300]}")
    if text is None:
        return Answer("", cost=cost, failure=f"unparseable: no text, finish_reason {choice.finish_reason!r:.40}")
    ends = [position for position in map(text.find, question.sampling.stop) if position >= 0]
    tokens = choice.logprobs.content if choice.logprobs and choice.logprobs.content else []
    return Answer(
        text[: min(ends, default=len(text))],
        "length" if choice.finish_reason == "length" else "stop",
        tuple(_together(token.top_logprobs) for token in tokens) if question.top_logprobs else (),
        cost,
        calls=calls,
    )


def _together(alternatives: Sequence[_Likely]) -> dict[str, float]:
    """Token -> log-probability; of tokens spelt alike that of any of them."""
    logprobs: dict[str, float] = {}
    for alternative in alternatives:
        if math.isfinite(alternative.logprob):
            before = logprobs.get(alternative.token, -math.inf)
            high, low = max(before, alternative.logprob), min(before, alternative.logprob)
            logprobs[alternative.token] = high + math.log1p(math.exp(low - high))
    return logprobs
