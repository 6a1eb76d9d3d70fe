"""A server on loopback that speaks OpenAI's protocol for the scripted judges: each is a model, called as its kind."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from palaver.agents.chat import Chat, Question
from palaver.benchmarks.audit.brains import BRAINS, Key
from palaver.benchmarks.audit.data import Labelled
from palaver.benchmarks.audit.scripted import ScriptedChat
from palaver.core import Message, nearest

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse

ROLES = ("system", "user", "assistant")


def application(chats: Mapping[str, Chat]) -> Starlette:
    """`/v1/models` and `/v1/chat/completions`, each chat being a model by its key. A refusal is told as a refusal."""
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def models(_: Request) -> JSONResponse:
        return JSONResponse({"object": "list", "data": [{"id": name, "object": "model"} for name in chats]})

    async def complete(request: Request) -> JSONResponse:
        try:
            body = await request.json()
            asked, name = question(body), str(body.get("model"))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as wrong:
            return JSONResponse(_error(f"not a question that this server reads: {type(wrong).__name__}"), 400)
        if name not in chats:
            return JSONResponse(_error(f"there is no model {name[:40]!r}.{nearest(name[:40], chats)}"), 404)
        return JSONResponse(await asyncio.to_thread(_completion, chats[name], asked))

    return Starlette(routes=[Route("/v1/models", models), Route("/v1/chat/completions", complete, methods=["POST"])])


def _error(message: str) -> dict[str, Any]:
    return {"error": {"message": message, "type": "invalid_request_error"}}


def question(body: Mapping[str, Any]) -> Question:
    """What is asked in a body of the protocol.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: it has another form.
    """
    said = body["messages"]
    if not said or any(message["role"] not in ROLES or not isinstance(message["content"], str) for message in said):
        raise ValueError("messages")
    form = (body.get("response_format") or {}).get("json_schema") or {}
    conversation = tuple(Message(message["role"], message["content"]) for message in said)
    return Question(conversation, seed=int(body.get("seed") or 0), schema=form.get("schema") or {})


def _completion(chat: Chat, asked: Question) -> dict[str, Any]:
    (answer,) = chat.ask([asked])
    read, written = answer.cost.prompt_tokens, answer.cost.completion_tokens
    message: dict[str, Any] = {"role": "assistant", "content": answer.text or None}
    if answer.failure:
        message["refusal"] = answer.failure
    return {
        "id": f"scripted-{asked.seed}", "object": "chat.completion", "created": int(time.time()), "model": chat.name,
        "choices": [{"index": 0, "message": message, "finish_reason": answer.finish, "logprobs": None}],
        "usage": {"prompt_tokens": read, "completion_tokens": written, "total_tokens": read + written},
    }  # fmt: skip


def judges(rows: Iterable[Labelled]) -> Starlette:
    """The application with all kinds of scripted judges, who know these rows."""
    key = Key.of(rows)
    return application({kind: ScriptedChat(kind, key) for kind in BRAINS})
