"""Questions to a server with OpenAI's protocol, many at once.

Each has retries, within a budget and a deadline.
"""

from __future__ import annotations

import asyncio
import os
import threading
from asyncio import sleep
from collections.abc import Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

import openai
from tenacity import AsyncRetrying, RetryCallState, retry_if_exception, wait_random_exponential

from palaver.agents.base.chat import Answer, Question
from palaver.agents.remote import wire
from palaver.agents.remote.budget import Budget, purse
from palaver.agents.remote.options import (
    PREFIX,
    Options,
    SecretKey,
    checked,
    is_local,
    most_tokens,
    price_of,
    read_name,
)
from palaver.agents.remote.wire import CallError, failed
from palaver.core import Completion, PolicyError, Request
from palaver.scoring import Cost
from palaver.text import one_line

T = TypeVar("T")


class _Thread:
    """One event loop for all remote calls of a process, in a thread of its own.

    Callers may be in any thread. A forked child has none of its parent's threads, so it gets a loop of its own.
    """

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.loop: asyncio.AbstractEventLoop | None = None

    def get(self) -> asyncio.AbstractEventLoop:
        """The running loop, started on first use."""
        with self.lock:
            if self.loop is None:
                self.loop = asyncio.new_event_loop()
                threading.Thread(target=self.loop.run_forever, name="palaver-remote", daemon=True).start()
            return self.loop


_THREAD = _Thread()
os.register_at_fork(after_in_child=_THREAD.__init__)  # type: ignore[misc]  # the lock may be held at the fork


def wait_for(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the coroutine's result; it is cancelled if the caller is interrupted meanwhile."""
    future = asyncio.run_coroutine_threadsafe(coroutine, _THREAD.get())
    try:
        return future.result()
    finally:
        future.cancel()


LONGEST_WAIT = 60.0  # seconds before another attempt, where the server names none


class RemoteChat:
    """A `palaver.agents.base.chat.Chat` over HTTP.

    Every call first reserves what it can cost at worst: a token for each byte of the prompt, and `max_tokens`. What it
    did cost is settled after it: as the server reports it; by an estimate (`options.py`) where it does not; and the
    worst case if the reply was cut off, came too late or was no chat completion, for it may have been charged.

    Args:
        model: its name on the server.
        url: of the server, up to and with `/v1`; "" for the client's own default.
        options: limits, price and the variable of the key.

    Raises:
        PolicyError: no key, no price where there is a budget in dollars, or a URL that is none.
    """

    def __init__(self, model: str, url: str = "", options: Options | None = None) -> None:
        options = options or Options.model_validate({})
        self.model = model
        self.url = checked(url)
        self.options = options
        self.name = f"{PREFIX}{model}@{self.url}" if url else f"{PREFIX}{model}"
        self.revision = options.revision
        self.price = price_of(model, options)
        self._key = SecretKey(options.key, self.url)
        self.budget = Budget(options.dollars, options.tokens, purse())
        self._limit_field = options.length or ("max_tokens" if url else "max_completion_tokens")
        self._session: _Session | None = None

    @classmethod
    def named(cls, name: str) -> RemoteChat:
        """The chat called `openai:MODEL[@URL][?OPTIONS]`.

        Raises:
            PolicyError: see the class; or the name is not written so.
        """
        return cls(*read_name(name))

    def __repr__(self) -> str:
        return f"RemoteChat({self.name!r})"

    def __deepcopy__(self, memo: object) -> RemoteChat:
        return self  # a copy would have a budget of its own

    def __reduce__(self) -> tuple[type[RemoteChat], tuple[str, str, Options]]:
        return RemoteChat, (self.model, self.url, self.options)

    def spent(self) -> Cost:
        """On all calls so far, failed ones included."""
        return self.budget.spent

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """Return one answer per question, in order; a failed one holds its `failure`."""
        return wait_for(self._ask(questions, False))

    def insist(self, questions: Sequence[Question]) -> list[Answer]:
        """As `ask`, but the first failure ends all that is under way.

        Raises:
            PolicyError: one question found no answer; the message names it and the reason.
        """
        answers = wait_for(self._ask(questions, True))
        for index, answer in enumerate(answers):
            if answer.failure and answer.failure != _GIVEN_UP:
                which, why = f"question {index + 1} of {len(answers)}", one_line(answer.failure, 500)
                raise PolicyError(f"{self.name} did not answer {which}: {why}")
        return answers

    def close(self) -> None:
        """Close the connections; the next question opens new ones."""
        session, self._session = self._session, None
        if session and session.pid == os.getpid():
            wait_for(session.client.close())

    async def _ask(self, questions: Sequence[Question], hasty: bool) -> list[Answer]:
        over = asyncio.Event()
        calls = [_Call(self, question, over if hasty else None) for question in questions]
        tasks = [asyncio.create_task(call.answer()) for call in calls]
        try:
            reason = await self._gather(tasks, hasty)
        finally:
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return [
            Answer("", cost=call.cost, failure=reason) if task.cancelled() else task.result()
            for call, task in zip(calls, tasks, strict=True)
        ]

    async def _gather(self, tasks: Sequence[asyncio.Task[Answer]], hasty: bool) -> str:
        """Wait for all, or for the first failure, or for the deadline.

        Returns the reason why some are not done, "" if all are.
        """
        waiting = set(tasks)
        until = asyncio.get_running_loop().time() + self.options.deadline
        while waiting:
            left = until - asyncio.get_running_loop().time()
            when = asyncio.FIRST_COMPLETED if hasty else asyncio.ALL_COMPLETED
            done, waiting = await asyncio.wait(waiting, timeout=max(0.0, left), return_when=when)
            if not done:
                return f"timeout: the deadline of {self.options.deadline:g} s for all questions"
            if hasty and any(task.result().failure for task in done):
                return _GIVEN_UP
        return ""

    def session(self) -> _Session:
        """The connections of this process; to be called in the event loop."""
        if self._session is None or self._session.pid != os.getpid():
            self._session = _Session(self)
        return self._session


_GIVEN_UP = "transport: given up because another question failed"


class _Session:
    """State of one process and its event loop."""

    def __init__(self, chat: RemoteChat) -> None:
        self.pid = os.getpid()
        self.gate = asyncio.Semaphore(chat.options.concurrency)
        self.resume_at = 0.0  # by the loop's clock: the server requested no calls until then
        # a proxy for the outside world cannot know this machine's own servers
        http = openai.DefaultAsyncHttpxClient(trust_env=False) if is_local(chat.url) else None
        self.client = openai.AsyncOpenAI(
            api_key=chat._key.reveal(),
            base_url=chat.url or None,
            max_retries=0,
            timeout=openai.Timeout(None, connect=chat.options.timeout / 2),  # a call that finds no server costs nothing
            http_client=http,
        )


class _Call:
    """One question on its way: its attempts and what they cost."""

    def __init__(self, chat: RemoteChat, question: Question, over: asyncio.Event | None) -> None:
        self.chat = chat
        self.question = question
        self.over = over  # set by the first that fails, where no other shall be sent after that
        self.cost = Cost()
        self.until = asyncio.get_running_loop().time() + chat.options.deadline

    async def answer(self) -> Answer:
        """The answer, or the last failure."""
        redact = self.chat._key.redact
        backoff = wait_random_exponential(multiplier=self.chat.options.backoff, max=LONGEST_WAIT)
        attempts = AsyncRetrying(
            retry=retry_if_exception(lambda error: isinstance(error, CallError) and error.again),
            wait=lambda state: max(backoff(state), _requested_wait(state)),
            stop=self._stops,
            sleep=sleep,
            reraise=True,
        )
        try:
            got: Answer = await attempts(self._attempt)
        except CallError as last:
            got = Answer("", failure=str(last))
        if got.failure and self.over:
            self.over.set()
        calls = tuple(replace(call, name=redact(call.name), arguments=redact(call.arguments)) for call in got.calls)
        return Answer(redact(got.text), got.finish, got.top, self.cost, redact(got.failure), calls)

    def _stops(self, state: RetryCallState) -> bool:
        """Return whether to stop: attempts are used up, or the next would come after the deadline."""
        late = asyncio.get_running_loop().time() + state.upcoming_sleep >= self.until
        return late or state.attempt_number >= self.chat.options.attempts

    async def _attempt(self) -> Answer:
        chat, session, question = self.chat, self.chat.session(), self.question
        prompt = most_tokens(question.conversation, question.schema, question.tools)
        worst = chat.price.cost(prompt, question.sampling.max_tokens)
        async with session.gate:
            if self.over and self.over.is_set():
                return Answer("", failure=_GIVEN_UP)
            await self._pause(session)
            await chat.budget.reserve(worst)
            cost = worst
            try:
                got = wire.parse_reply(wire.read(await self._send(session)), question, chat.price)
                cost = got.cost
            except CallError as failure:
                cost = worst if failure.billed else Cost(calls=1)
                if failure.after is not None:
                    session.resume_at = max(session.resume_at, asyncio.get_running_loop().time() + failure.after)
                raise
            finally:
                chat.budget.settle(worst, cost)
                self.cost += cost
        return got

    async def _pause(self, session: _Session) -> None:
        """Wait until the time that the server gave to another call."""
        wait = session.resume_at - asyncio.get_running_loop().time()
        if session.resume_at >= self.until:
            raise CallError("rate limit", f"the server asks to wait {wait:.0f} s, which is beyond the deadline")
        if wait > 0:
            await sleep(wait)

    async def _send(self, session: _Session) -> bytes:
        """The bytes of a reply."""
        chat = self.chat
        keywords = wire.body(chat.model, self.question, chat._limit_field)
        try:
            async with asyncio.timeout(chat.options.timeout):
                raw = await session.client.chat.completions.with_raw_response.create(**keywords)
        except TimeoutError:
            why = f"no whole reply within {chat.options.timeout:g} s"
            raise CallError("timeout", why, again=True, billed=True) from None
        except openai.OpenAIError as error:
            raise failed(error) from None  # the client's error holds the request, and that the key
        return bytes(raw.content)


def _requested_wait(state: RetryCallState) -> float:
    """Seconds that the server requests to wait before another attempt."""
    error = state.outcome.exception() if state.outcome else None
    return error.after or 0.0 if isinstance(error, CallError) else 0.0


class RemotePolicy:
    """Queries a server once for every seed.

    An answer that fails after all attempts ends the work with one line: an empty text in its place would be scored, and
    learnt from, as if the model had generated it. Texts come without token ids, so such a policy cannot be trained.
    """

    def __init__(self, chat: RemoteChat, name: str = "") -> None:
        self.chat = chat
        self.name = name or chat.name

    def act(self, requests: Sequence[Request]) -> list[list[Completion]]:
        """One list per request, one completion per seed.

        All are sent at once, as the chat's limits allow.

        Raises:
            PolicyError: the server did not answer one of them, or the budget or the deadline ended.
        """
        questions = [
            Question(request.conversation, request.sampling, seed, tools=request.tools)
            for request in requests
            for seed in request.seeds
        ]
        completions = (
            Completion(answer.text, finish=answer.finish, calls=answer.calls) for answer in self.chat.insist(questions)
        )
        return [[next(completions) for _ in request.seeds] for request in requests]

    def spent(self) -> Cost:
        """On all calls so far."""
        return self.chat.spent()
