"""A server on loopback that speaks OpenAI's protocol for one scripted judge."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from palaver.agents.chat import Chat, Question
from palaver.core import ConfigError, Message

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from uvicorn import Server

HOST = "127.0.0.1"
ROLES = ("system", "user", "assistant")


def application(chat: Chat) -> Starlette:
    """`/v1/models` and `/v1/chat/completions` of a chat. A refusal is told as the protocol has it."""
    from starlette.applications import Starlette
    from starlette.responses import JSONResponse
    from starlette.routing import Route

    async def models(_: Request) -> JSONResponse:
        return JSONResponse({"object": "list", "data": [{"id": chat.name, "object": "model"}]})

    async def complete(request: Request) -> JSONResponse:
        try:
            asked = question(await request.json())
        except (ValueError, KeyError, TypeError, AttributeError) as wrong:
            error = {
                "message": f"not a question this server reads: {type(wrong).__name__}",
                "type": "invalid_request_error",
            }
            return JSONResponse({"error": error}, 400)
        return JSONResponse(await asyncio.to_thread(_completion, chat, asked))

    return Starlette(routes=[Route("/v1/models", models), Route("/v1/chat/completions", complete, methods=["POST"])])


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


def listen(port: int) -> socket.socket:
    """A socket on loopback; port 0 takes a free one.

    Raises:
        ConfigError: the port is taken or may not be used.
    """
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((HOST, port))
    except OSError as error:
        made.close()
        raise ConfigError(f"cannot listen on {HOST}:{port} ({error.strerror}); choose another with --port") from error
    return made


def server(chat: Chat) -> Server:
    """What runs the application: `server(chat).run(sockets=[listen(port)])`."""
    import uvicorn

    return uvicorn.Server(uvicorn.Config(application(chat), log_level="warning", lifespan="off"))
