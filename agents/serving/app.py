"""The web application: two paths of OpenAI's protocol, with limits, in front of policies."""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import ClientDisconnect
from starlette.requests import Request as Call
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from palaver.agents.base.policy import Policy, act_batched
from palaver.agents.serving import protocol
from palaver.agents.serving.protocol import RequestRefused, token_logprobs
from palaver.core import Completion, PalaverError, Request

T = TypeVar("T")
_Item = tuple[Policy, Request, "asyncio.Future[list[Completion]]"]


class Batcher:
    """Queries policies, which are used by one thread at a time.

    Args:
        window: seconds in which requests are collected after the first one.
        room: most answers that may wait or be under way; further requests are refused.
    """

    def __init__(self, window: float, room: int) -> None:
        self.window = window
        self.room = room
        self.waiting: list[_Item] = []
        self.under_way = 0  # answers that wait or are being written
        self._worker = ThreadPoolExecutor(1, "palaver-serve")
        self._arrived = asyncio.Event()
        self._task = asyncio.create_task(self._run())

    async def submit(self, policy: Policy, request: Request) -> list[Completion]:
        """Query the policy, one completion per seed.

        Raises:
            RequestRefused: there is no room.
            PalaverError: the policy cannot answer this.
        """
        count = len(request.seeds)
        if self.under_way + count > self.room:
            busy = f"{self.under_way} answers are waited for and there is room for {self.room}; try again"
            raise RequestRefused(429, busy, "busy", {"Retry-After": "1"})
        future: asyncio.Future[list[Completion]] = asyncio.get_running_loop().create_future()
        self.under_way += count
        self.waiting.append((policy, request, future))
        self._arrived.set()
        try:
            return await future
        finally:
            self.under_way -= count

    async def in_worker(self, function: Callable[..., T], *arguments: Any) -> T:
        """Call the function in the thread that runs the policies, and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._worker, function, *arguments)

    async def close(self) -> None:
        """End after the batch that is under way."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._worker.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        while True:
            await self._arrived.wait()
            await asyncio.sleep(self.window)
            self._arrived.clear()
            batch, self.waiting = [item for item in self.waiting if not item[2].done()], []
            for (_, _, future), answer in zip(batch, await self._answers(batch), strict=True):
                if future.done():
                    continue  # the client is gone
                if isinstance(answer, BaseException):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)

    async def _answers(self, batch: Sequence[_Item]) -> list[list[Completion] | BaseException]:
        """Answers of each item.

        If one item cannot be answered, each is queried alone, so that the others are answered.
        """
        queries = [(policy, request) for policy, request, _ in batch]
        (result,) = await asyncio.gather(self.in_worker(act_batched, queries), return_exceptions=True)
        if not isinstance(result, BaseException):
            return list(result)
        if len(batch) == 1 or not isinstance(result, PalaverError):
            return [result] * len(batch)
        return [(await self._answers([item]))[0] for item in batch]


LOOPBACK = ("127.0.0.1", "localhost")
BODY_SECONDS = 30  # for a body to come in
PATIENCE = 16  # times the longest body that are read before the connection is closed
_CLOSE = {"Connection": "close"}


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of a server.

    Attributes:
        body: most bytes of a request.
        room: most answers that wait or are under way.
        tokens: most of one answer.
        window: seconds in which requests are collected for one batch.
        key: that clients must send as bearer; "" requires none.
        hosts: names under which clients may call it; a web page whose own name leads to this machine uses that.
    """

    body: int = 1 << 20
    room: int = 256
    tokens: int = 1024
    window: float = 0.005
    key: str = field(default="", repr=False)
    hosts: tuple[str, ...] = field(default=LOOPBACK, repr=False)


def make_app(policies: Mapping[str, Policy], limits: ServerLimits | None = None) -> Starlette:
    """The application that serves policies by the names clients call them."""
    served = _Served(policies, limits or ServerLimits())
    return Starlette(
        routes=[
            Route("/v1/models", served.models, methods=["GET"]),
            Route("/v1/chat/completions", served.complete, methods=["POST"]),
        ],
        middleware=[Middleware(TrustedHostMiddleware, allowed_hosts=list(served.limits.hosts), www_redirect=False)],
        exception_handlers=_HANDLERS,
        lifespan=served.lifespan,
    )


class _Served:
    """The policies and their batcher."""

    def __init__(self, policies: Mapping[str, Policy], limits: ServerLimits) -> None:
        self.policies = policies
        self.limits = limits
        self.batcher: Batcher | None = None

    @asynccontextmanager
    async def lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """The batcher lives as long as the server."""
        app.state.batcher = self.batcher = Batcher(self.limits.window, self.limits.room)
        try:
            yield
        finally:
            await self.batcher.close()

    async def models(self, call: Call) -> Response:
        """`GET /v1/models`."""
        self._admit(call)
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "palaver"} for name in self.policies]
        return JSONResponse({"object": "list", "data": data})

    async def complete(self, call: Call) -> Response:
        """`POST /v1/chat/completions`."""
        self._admit(call)
        if call.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            # any web page may send other types here without asking; this one its browser will not let it
            raise RequestRefused(415, "the body must be JSON, with Content-Type: application/json", "invalid_type")
        body = protocol.parse_body(await self._body(call))
        policy = self.policies.get(body.model)
        if policy is None:
            known = ", ".join(map(repr, self.policies))
            raise RequestRefused(404, f"there is no model {body.model[:100]!r} here; known: {known}", "model_not_found")
        request = body.to_request(self.limits.tokens)
        assert self.batcher
        completions = await self.batcher.submit(policy, request)
        logprobs: list[list[dict[str, Any]] | None] = [None] * len(completions)
        if body.logprobs:
            logprobs = await self.batcher.in_worker(token_logprobs, policy, completions, body.top_logprobs or 0)
        note = {"Palaver-Note": protocol.NOT_ENFORCED} if body.response_format else {}
        response = protocol.response_body(body, request, completions, logprobs)
        if not body.stream:
            return JSONResponse(response, headers=note)
        headers = note | {"Cache-Control": "no-cache"}
        return Response(protocol.event_stream(body, response), headers=headers, media_type="text/event-stream")

    def _admit(self, call: Call) -> None:
        """
        Raises:
            Refused: a key is required and was not given.
        """
        scheme, _, key = call.headers.get("authorization", "").partition(" ")
        right = hmac.compare_digest(key.strip().encode("utf-8", "replace"), self.limits.key.encode())
        if self.limits.key and not (scheme.lower() == "bearer" and right):
            raise RequestRefused(401, "a key is needed, as Authorization: Bearer KEY", "invalid_api_key")

    async def _body(self, call: Call) -> bytes:
        """
        Raises:
            Refused: it is longer than the limit, or does not come to an end. What is somewhat too long is read, and
                thrown away, because a client that is cut off while it sends never sees the reply.
        """
        body, length = bytearray(), 0
        try:
            async with asyncio.timeout(BODY_SECONDS):
                async for chunk in call.stream():
                    length += len(chunk)
                    if length <= self.limits.body:
                        body += chunk
                    elif length > PATIENCE * self.limits.body:
                        break
        except TimeoutError:
            raise RequestRefused(408, f"the body did not come within {BODY_SECONDS} s", "too_slow", _CLOSE) from None
        if length > self.limits.body:
            raise RequestRefused(413, f"the body is longer than {self.limits.body} bytes", "too_long", _CLOSE)
        return bytes(body)


async def _refused(call: Call, error: RequestRefused) -> Response:  # noqa: ARG001 - called by position
    return JSONResponse(error.body(), error.status, error.headers)


async def _impossible(call: Call, error: PalaverError) -> Response:
    """Response for a policy that cannot answer."""
    return await _refused(call, RequestRefused(400, str(error), "policy_error"))


async def _unknown(call: Call, error: HTTPException) -> Response:
    """No such path, or another method."""
    message = f"{error.detail}: there are GET /v1/models and POST /v1/chat/completions"
    return await _refused(call, RequestRefused(error.status_code, message, "unknown_path", dict(error.headers or {})))


async def _gone(call: Call, error: ClientDisconnect) -> Response:  # noqa: ARG001 - called by position
    """Response for a client that left in the middle of its request; it is not read."""
    return Response(status_code=400)


async def _defect(call: Call, error: Exception) -> Response:
    """Anything else is a defect; what it is goes to the server's own log, not over the wire."""
    return await _refused(call, RequestRefused(500, f"the server failed ({type(error).__name__})", "defect"))


_HANDLERS: dict[Any, Any] = {
    RequestRefused: _refused,
    PalaverError: _impossible,
    HTTPException: _unknown,
    ClientDisconnect: _gone,
    Exception: _defect,
}
