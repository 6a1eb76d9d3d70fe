"""OpenAI's chat completions: requests from questions, answers from replies."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, Field, ValidationError

from palaver.agents.base.chat import Answer, Question
from palaver.agents.remote.failures import CallError
from palaver.agents.remote.prices import Price, estimated_tokens
from palaver.text import first_fault


class _Likely(BaseModel):
    token: str
    logprob: float


class _Token(BaseModel):
    top_logprobs: list[_Likely] = Field(default_factory=list)


class _Logprobs(BaseModel):
    content: list[_Token] | None = None


class _Message(BaseModel):
    content: str | None = None
    refusal: str | None = None


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
        "messages": [
            {"role": message.role, "content": _sendable(message.content)} for message in question.conversation
        ],
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "seed": question.seed,
        limit_field: sampling.max_tokens,
    }
    if sampling.stop:
        request_body["stop"] = [_sendable(text) for text in sampling.stop]
    if sampling.top_k:
        request_body["extra_body"] = {"top_k": sampling.top_k}
    if question.top_logprobs:
        request_body |= {"logprobs": True, "top_logprobs": question.top_logprobs}
    if question.schema:
        # a server may refuse to be strict about a schema that leaves other properties open
        strict = question.schema.get("additionalProperties") is False
        form = {"name": "answer", "schema": dict(question.schema), "strict": strict}
        request_body["response_format"] = {"type": "json_schema", "json_schema": form}
    return request_body


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

    Text from a stop string on is cut off, whether the server did that or not.
    """
    choice = reply.choices[0]
    text, usage = choice.message.content, reply.usage
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


def _sendable(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8")
