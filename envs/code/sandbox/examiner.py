"""The trusted side: runs a data set's tests against a program that runs elsewhere.

It is a process of its own, because tests that work with a value of a program's making may hang; then it is this process
that ends, by an alarm on its processor time or on wall clock, and not the one that trains.

Standard library only: this module runs where Palaver is not installed.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import sys
from collections.abc import Callable, Iterator
from typing import IO, Any

from palaver.envs.code.sandbox import suite, wire
from palaver.envs.code.sandbox.launch import LaunchError, LaunchPlan, LostError, SandboxWorker
from palaver.envs.code.sandbox.session import (
    TESTS,
    CandidateError,
    Session,
    StopTests,
    TestsFault,
    WorkerLostError,
)

RECYCLE = 500  # programs a worker serves; 1 without the filter, which keeps a program from reaching its parent
MEMORY = 2 << 30  # address space of this process: a test may multiply what a program returned
_HEADER = 4
_LONGEST = 600  # characters of a message


def main(settings: dict[str, Any]) -> None:
    """Start a worker, say how it is confined, and examine programs until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    replies = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)  # the tests may print
    source = sys.stdin.buffer
    slot = _Slot(settings["plans"])
    _write(replies, {"mode": slot.worker.mode if slot.worker else "", "refused": slot.refused})
    while request := _read(source):
        _write(replies, slot.examine(request))


class _Slot:
    """A worker, replaced when it is used up or lost."""

    def __init__(self, plans: list[LaunchPlan]) -> None:
        self.refused: dict[str, str] = {}
        self.worker: SandboxWorker | None = None
        for plan in plans:
            self.plan = plan
            try:
                self.worker = SandboxWorker(plan)
                break
            except LaunchError as error:
                self.refused[plan["mode"]] = str(error)

    def examine(self, request: dict[str, Any]) -> dict[str, Any]:
        """Verdict and message of each test, or why there is no score."""
        try:
            tests = suite.read(request["tests"], request["entry_point"], request["prompt"])
        except suite.UnusableError as error:
            return {"fault": str(error)}
        try:
            worker = self._ready()
            return {"results": _Examination(tests, worker, request).run()}
        except (LaunchError, LostError) as error:
            self._replace()
            return {"lost": str(error)}
        except TestsFault as error:
            return {"fault": str(error)}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.setitimer(signal.ITIMER_REAL, 0)

    def _ready(self) -> SandboxWorker:
        if self.worker is not None:
            try:
                self.worker.settle()
            except LostError:
                self._replace()
            else:
                max_uses = RECYCLE if self.plan["settings"]["filter"] else 1
                if not self.worker.usable or self.worker.served >= max_uses:
                    self._replace()
        if self.worker is None:
            self.worker = SandboxWorker(self.plan)
        return self.worker

    def _replace(self) -> None:
        if self.worker is not None:
            self.worker.close()
            self.worker = None


class _Examination:
    """One program under one suite."""

    def __init__(self, tests: suite.Suite, worker: SandboxWorker, request: dict[str, Any]) -> None:
        self.tests = tests
        self.results: list[list[str] | None] = [None] * len(tests.assertions)
        self.limits: dict[str, Any] = request["limits"]
        self.entry_point: str = request["entry_point"]
        # the same draws each time, which no program can guess
        self.seed = f"{request['tests']}\0{request['program']}".encode("utf-8", "surrogatepass")
        self.session = Session(worker, request["program"], self.entry_point, self.limits, tests.classes)
        self.session.excuse(self._rehearse)

    def run(self) -> list[list[str]]:
        random.seed(self.seed)
        signal.setitimer(signal.ITIMER_PROF, self.limits["seconds"])  # of this process's own work; its signal ends it
        missing = ["pass", ""]  # nothing has objected to an assertion that was never reached
        try:
            self.session.open()
            self._tests(self._call, self._trial)
        except StopTests:
            missing = list(self.session.loss)
        except Exception as error:  # tests may raise anything where they use what a program returned
            if self.session.calls == 0:
                raise TestsFault(f"the tests cannot run: {_error_text(error)}") from error
            missing = self._verdict(error)
        finally:
            self.session.close()
        return [[verdict, message[:_LONGEST]] for verdict, message in (result or missing for result in self.results)]

    def _tests(self, candidate: Callable[..., Any], trial: Callable[..., Any]) -> None:
        space: dict[str, Any] = {"__name__": TESTS, suite.TRIAL: trial}
        self.session.space = space
        exec(self.tests.helpers, space)
        space.setdefault("candidate", candidate)
        space[self.entry_point] = candidate
        exec(self.tests.code, space)
        if self.tests.has_check:
            space[suite.CHECK](candidate)

    def _call(self, *positional: Any, **named: Any) -> Any:
        """The candidate, with tests limited by the clock too.

        Tests may sleep from one call to the next.
        """
        signal.setitimer(signal.ITIMER_REAL, 0)
        try:
            return self.session.call(*positional, **named)
        finally:
            signal.setitimer(signal.ITIMER_REAL, self.limits["wall_factor"] * self.limits["total_seconds"])

    def _rehearse(self) -> str:
        """Run the tests without the program; return why an argument cannot cross, "" if all can.

        The tests make these arguments themselves. Nothing of the program has a part in this, so that its fault is never
        taken for the tests'.
        """
        faults: list[str] = []

        def candidate(*positional: Any, **named: Any) -> None:
            try:
                wire.encode([positional, named], self.session.describe)
            except wire.NotPlainError as error:
                faults.append(str(error))
            raise CandidateError("there is no program in a rehearsal")

        space, state = self.session.space, random.getstate()
        random.seed(self.seed)
        with contextlib.suppress(Exception):  # as in run
            self._tests(candidate, _swallowed)
        self.session.space = space
        random.setstate(state)
        return faults[0] if faults else ""

    @contextlib.contextmanager
    def _trial(self, first: int, last: int, swallow: bool) -> Iterator[None]:
        """Assertions first to last - 1 are tried inside.

        A single one that raises nothing has passed.
        """
        self.session.forget()
        try:
            yield
        except StopTests:
            self._fail(first, last, list(self.session.loss))
            raise
        except Exception as error:  # as in run
            if self.session.calls == 0:
                raise TestsFault(f"the tests cannot run: {_error_text(error)}") from error
            if not swallow:
                raise
            self._fail(first, last, self._verdict(error))
        else:
            if last - first == 1 and self.results[first] is None:
                self.results[first] = ["pass", ""]

    def _fail(self, first: int, last: int, result: list[str]) -> None:
        for index in range(first, last):
            if self.results[index] in (None, ["pass", ""]):
                self.results[index] = result

    def _verdict(self, error: Exception) -> list[str]:
        if isinstance(error, WorkerLostError):
            return list(self.session.loss)
        last_message = self.session.last
        if error is self.session.raised:
            return ["memory" if isinstance(error, MemoryError) else "error", last_message]
        if isinstance(error, AssertionError):
            return ["fail", last_message or "the assertion is false"]
        text = _error_text(error)
        return ["error", f"{last_message}; the test then raised {text}" if last_message else f"the test raised {text}"]


@contextlib.contextmanager
def _swallowed(_first: int, _last: int, swallow: bool) -> Iterator[None]:
    """As a trial, without results."""
    try:
        yield
    except Exception:  # as in run
        if not swallow:
            raise


def _error_text(error: Exception) -> str:
    """An exception in a message.

    Its arguments may be of a program's making, a number without end of digits too.
    """
    try:
        text = str(error)
    except (ValueError, RecursionError, MemoryError):
        text = "what it says is too large to show"
    return f"{type(error).__name__}: {text[:_LONGEST]}"


def _read(source: IO[bytes]) -> dict[str, Any]:
    """The next request; empty when there are no more."""
    header = source.read(_HEADER)
    if len(header) < _HEADER:
        return {}
    request: dict[str, Any] = json.loads(source.read(int.from_bytes(header, "big")) or b"{}")
    return request


def _write(target: IO[bytes], reply: dict[str, Any]) -> None:
    body = json.dumps(reply).encode()
    target.write(len(body).to_bytes(_HEADER, "big") + body)
    target.flush()
