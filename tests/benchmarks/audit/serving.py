"""Loopback server of the scripted judges, with OpenAI's protocol and one model per kind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from palaver.agents.base.chat import Chat, Question
from palaver.agents.serving.protocol import CompletionRequest, RequestRefused, parse_body
from palaver.benchmarks.judge_audit.data import Labelled
from palaver.benchmarks.judge_audit.judges import BRAINS, AnswerKey, ScriptedJudgeChat
from palaver.core import did_you_mean

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse


def application(chats: Mapping[str, Chat]) -> Starlette:
    """Serve `/v1/models` and `/v1/chat/completions`, with each chat as a model named by its key.

    A refusal of a chat is returned as a refusal.
    """
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def models(_: Request) -> JSONResponse:
        return JSONResponse({"object": "list", "data": [{"id": name, "object": "model"} for name in chats]})

    async def complete(request: Request) -> JSONResponse:
        try:
            completion_request = parse_body(await request.body())
            if completion_request.model not in chats:
                name = completion_request.model[:40]
                raise RequestRefused(404, f"there is no model {name!r}.{did_you_mean(name, chats)}", "model_not_found")
        except RequestRefused as refused:
            return JSONResponse(refused.body(), refused.status)
        return JSONResponse(
            await asyncio.to_thread(_completion, chats[completion_request.model], question(completion_request))
        )

    return Starlette(routes=[Route("/v1/models", models), Route("/v1/chat/completions", complete, methods=["POST"])])


def question(request: CompletionRequest) -> Question:
    """Convert a request of the protocol to a question."""
    form = request.response_format and request.response_format.json_schema
    conversation = tuple(message.to_message() for message in request.messages)
    return Question(conversation, seed=request.seed or 0, schema=form.schema_ if form else {})


def _completion(chat: Chat, posed: Question) -> dict[str, Any]:
    (answer,) = chat.ask([posed])
    read, written = answer.cost.prompt_tokens, answer.cost.completion_tokens
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.failure:
        message["refusal"] = answer.failure
    return {
        "id": f"scripted-{posed.seed}",
        "object": "chat.completion",
        "created": int(time.time()),
        "model": chat.name,
        "choices": [{"index": 0, "message": message, "finish_reason": answer.finish, "logprobs": None}],
        "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
    }


def judges(rows: Iterable[Labelled]) -> Starlette:
    """Make the application with all kinds of scripted judges, with these rows as their labels."""
    key = AnswerKey.of(rows)
    return application({kind: ScriptedJudgeChat(kind, key) for kind in BRAINS})
