"""Requests and responses of OpenAI's chat completions: parsing, refusals, the response body."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import PydanticCustomError

from palaver.agents.base.policy import Policy
from palaver.agents.remote.options import estimated_tokens
from palaver.core import Completion, Message, Request, Sampling, ToolCall, ToolSchema, stable_seed
from palaver.text import first_fault, one_line, without_surrogates
from palaver.utils.tool_calls import MOST_PARSED

MOST_MESSAGES = 10_000
MOST_ANSWERS = 128
MOST_TOOLS = 128
NOT_ENFORCED = "response_format is read, not enforced: the model writes what it likes"
Stop = Annotated[str, Field(min_length=1, max_length=1000)]


class RequestRefused(Exception):  # noqa: N818 - an answer of the protocol, not an error of ours
    """A request that gets an error in OpenAI's shape instead of an answer.

    Attributes:
        status: HTTP status.
        code: error code, for programs.
        headers: additional headers of the response.
    """

    def __init__(self, status: int, message: str, code: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(one_line(message, 500))
        self.status = status
        self.code = code
        self.headers = headers or {}

    def body(self) -> dict[str, Any]:
        """JSON body of the error."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {"error": {"message": str(self), "type": kind, "param": None, "code": self.code}}


class _Strict(BaseModel):
    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, hide_input_in_errors=True)


class _Part(_Strict):
    type: Literal["text"]
    text: str


class _CalledFunction(_Strict):
    name: str = Field(max_length=256)
    arguments: str


class _ToolCall(_Strict):
    id: str = Field(max_length=256)
    type: Literal["function"]
    function: _CalledFunction


class _Message(_Strict):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[_Part] | None = None
    name: str | None = None
    refusal: None = None
    tool_calls: list[_ToolCall] | None = Field(None, max_length=MOST_PARSED)
    tool_call_id: str | None = Field(None, max_length=256)

    @model_validator(mode="after")
    def _of_its_role(self) -> Self:
        if self.content is None and not self.tool_calls:
            raise PydanticCustomError("content", "a message without tool_calls needs content")
        if self.tool_calls and self.role != "assistant":
            raise PydanticCustomError("tool_calls", "only an assistant calls tools")
        if (self.role == "tool") != (self.tool_call_id is not None):
            raise PydanticCustomError("tool_call_id", "a message of the role tool, and no other, has a tool_call_id")
        return self

    def to_message(self) -> Message:
        text = self.content or ""
        text = text if isinstance(text, str) else "".join(part.text for part in text)
        calls = tuple(ToolCall(c.id, c.function.name, c.function.arguments) for c in self.tool_calls or ())
        return Message("system" if self.role == "developer" else self.role, text, calls, self.tool_call_id or "")


class _Function(_Strict):
    name: str = Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")
    description: str = ""
    parameters: dict[str, Any] = Field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: bool | None = None


class _Tool(_Strict):
    type: Literal["function"]
    function: _Function

    def to_schema(self) -> ToolSchema:
        return ToolSchema(self.function.name, self.function.description, json.dumps(self.function.parameters))


class _Schema(_Strict):
    model_config = ConfigDict(extra="allow")

    name: str
    schema_: dict[str, Any] = Field(default_factory=dict, alias="schema")


class _Format(_Strict):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: _Schema | None = None


class _StreamOptions(_Strict):
    include_usage: bool = False


class CompletionRequest(_Strict):
    """Body of a request to `/v1/chat/completions`; fields that are not served are refused."""

    model: str
    messages: list[_Message] = Field(min_length=1, max_length=MOST_MESSAGES)
    n: int = Field(1, ge=1, le=MOST_ANSWERS)
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    temperature: float | None = Field(None, ge=0, allow_inf_nan=False)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=0)
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    stop: Stop | Annotated[list[Stop], Field(max_length=64)] | None = None
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=20)
    response_format: _Format | None = None
    tools: list[_Tool] | None = Field(None, max_length=MOST_TOOLS)
    tool_choice: Literal["auto", "none"] | None = None
    parallel_tool_calls: Literal[True] | None = None
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    user: str | None = None

    def to_request(self, token_limit: int) -> Request:
        """Request to the policy.

        The first completion has the client's seed, the others have seeds derived from it.

        Args:
            token_limit: maximum of `max_tokens`.

        Raises:
            RequestRefused: it requests more tokens, or for an option that is not served.
        """
        if self.stream_options and not self.stream:
            raise RequestRefused(400, "stream_options needs stream: true", "invalid_value")
        if self.top_logprobs and not self.logprobs:
            raise RequestRefused(400, "top_logprobs needs logprobs: true", "invalid_value")
        max_tokens = self.max_completion_tokens or self.max_tokens
        if max_tokens is not None and max_tokens > token_limit:
            raise RequestRefused(
                400, f"max_tokens is {max_tokens}; this server answers with {token_limit} at most", "invalid_value"
            )
        defaults = Sampling()
        sampling = Sampling(
            temperature=defaults.temperature if self.temperature is None else self.temperature,
            top_p=defaults.top_p if self.top_p is None else self.top_p,
            top_k=self.top_k or 0,
            max_tokens=max_tokens or min(token_limit, defaults.max_tokens),
            stop=(self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ()),
        )
        seed = secrets.randbits(62) if self.seed is None else self.seed
        seeds = (seed, *(stable_seed("serve", seed, index) for index in range(1, self.n)))
        tools = tuple(tool.to_schema() for tool in self.tools or ()) if self.tool_choice != "none" else ()
        return Request("client", tuple(message.to_message() for message in self.messages), seeds, sampling, tools)


def parse_body(body: bytes) -> CompletionRequest:
    """Parse the body of a request.

    Raises:
        RequestRefused: it is not JSON, or a field is missing, unknown or of a wrong kind; the message names the first.
    """
    try:
        return CompletionRequest.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        location = ".".join(map(str, first["loc"]))
        if first["type"] == "extra_forbidden":
            raise RequestRefused(400, f"the field {location:.100} is not served", "unknown_parameter") from None
        code = "invalid_json" if first["type"] == "json_invalid" else "invalid_value"
        raise RequestRefused(400, first_fault(error), code) from None


def response_body(
    body: CompletionRequest,
    request: Request,
    completions: Sequence[Completion],
    logprobs: Sequence[list[dict[str, Any]] | None],
) -> dict[str, Any]:
    """JSON body of the response; the tokens of policies that have none are estimated.

    Args:
        body: the client's request.
        request: the same for the policy.
        completions: of the request, n.
        logprobs: for each completion the records of its tokens, None if log-probabilities are not requested.
    """
    choices = [
        {
            "index": index,
            "message": _answer(completion),
            "finish_reason": "tool_calls" if completion.calls else completion.finish,
            "logprobs": None if records is None else {"content": records, "refusal": None},
        }
        for index, (completion, records) in enumerate(zip(completions, logprobs, strict=True))
    ]
    prompt_tokens = len(completions[0].prompt_ids)
    completion_tokens = sum(len(completion.token_ids) for completion in completions)
    if not prompt_tokens:  # a policy without tokens
        prompt_tokens = sum(estimated_tokens(message.content) for message in request.conversation)
        completion_tokens = sum(
            estimated_tokens("".join([c.text, *(call.arguments for call in c.calls)])) for c in completions
        )
    return {
        "id": f"chatcmpl-{secrets.token_hex(12)}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": body.model,
        "choices": choices,
        "usage": {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        },
    }


def _answer(completion: Completion) -> dict[str, Any]:
    """Message of a completion."""
    message: dict[str, Any] = {"role": "assistant", "content": without_surrogates(completion.text), "refusal": None}
    if completion.calls:
        calls = (replace(call, arguments=without_surrogates(call.arguments)) for call in completion.calls)
        message["tool_calls"] = [call.to_dict() for call in calls]
    return message


def _delta(message: Mapping[str, Any]) -> dict[str, Any]:
    """A whole message as one delta, in which calls have an index."""
    calls = [{"index": index} | call for index, call in enumerate(message.get("tool_calls", ()))]
    return dict(message) | ({"tool_calls": calls} if calls else {})


def event_stream(body: CompletionRequest, response: Mapping[str, Any]) -> str:
    """Server-sent events of a response: each text in one delta, its end, and the usage.

    The sampler answers batches of requests, so that there is nothing to send before an answer is complete.

    Args:
        body: the client's request.
        response: as `response_body` returns it.
    """
    head = {name: response[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    with_usage = body.stream_options is not None and body.stream_options.include_usage
    choices = [
        {
            "index": choice["index"],
            "delta": _delta(choice["message"]),
            "logprobs": choice["logprobs"],
            "finish_reason": None,
        }
        for choice in response["choices"]
    ] + [
        {"index": choice["index"], "delta": {}, "logprobs": None, "finish_reason": choice["finish_reason"]}
        for choice in response["choices"]
    ]
    chunks = [head | {"choices": [choice]} | ({"usage": None} if with_usage else {}) for choice in choices]
    if with_usage:
        chunks.append(head | {"choices": [], "usage": response["usage"]})
    events = [json.dumps(chunk, separators=(",", ":")) for chunk in chunks]
    return "".join(f"data: {event}\n\n" for event in [*events, "[DONE]"])


def token_logprobs(policy: Policy, completions: Sequence[Completion], top: int) -> list[list[dict[str, Any]] | None]:
    """Log-probability and likeliest tokens at each token of each completion's text.

    They are those of the model's softmax at temperature 1. A token that spells nothing, as the end token, is left out.

    Args:
        policy: that sampled them.
        completions: their texts.
        top: how many of the likeliest are listed, 0 to 20.

    Raises:
        RequestRefused: the policy is no language model of this process.
    """
    tokenizer = getattr(policy, "tokenizer", None)
    if tokenizer is None or not all(completion.prompt_ids for completion in completions):
        raise RequestRefused(400, f"{policy.name} has no log-probabilities to tell", "unsupported")
    from palaver.agents.llm.policies.top_logprobs import top_logprobs

    if top:
        alternatives = top_logprobs(policy, completions, top)  # type: ignore[arg-type]
    else:
        alternatives = [({},) * len(sample.token_ids) for sample in completions]
    return [
        [
            _token(tokenizer.decode([token]), logprob) | {"top_logprobs": [_token(*item) for item in best.items()]}
            for token, logprob, best in zip(sample.token_ids, sample.logprobs, tops, strict=True)
            if tokenizer.decode([token], skip_special_tokens=True)
        ]
        for sample, tops in zip(completions, alternatives, strict=True)
    ]


def _token(text: str, logprob: float) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode("utf-8", "replace"))}
