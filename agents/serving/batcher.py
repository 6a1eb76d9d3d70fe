"""Batching: requests that arrive at about the same time are answered in one batch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from palaver.agents.base.policy import Policy, act_batched
from palaver.agents.serving.protocol import RequestRefused
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
