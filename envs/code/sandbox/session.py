"""The trusted end of one program.

It offers the program's function as a callable, and the outcome of each call. Standard library only: this module also
runs in the examiner, where Palaver is not installed.
"""

from __future__ import annotations

import builtins
import copy
import os
import signal
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from palaver.envs.code.sandbox import wire
from palaver.envs.code.sandbox.clock import Allowance, OverError
from palaver.envs.code.sandbox.launch import LostError, SandboxWorker

TESTS = "tests"  # the module that the tests' own classes are of
OUT_OF_MEMORY = 71  # as in worker.py
_SHOWN = 120  # characters of a value in a message
# raised where a test draws values from the program, as `map` does, they would end the drawing and not the test
_ENDS = frozenset({"StopIteration", "StopAsyncIteration"})


class CandidateError(Exception):
    """Exception of a program that is no builtin exception, or a value that cannot be received."""


class WorkerLostError(Exception):
    """The program's process had to be ended, or ended itself, during a call."""


class StopTests(BaseException):
    """Nothing more is tried with this program.

    No `Exception`: the handlers of a test must not catch it.
    """


class TestsFault(BaseException):
    """The tests cannot be run, whatever the program does. No `Exception`, as above."""

    __test__ = False


class Session:
    """One program in one worker.

    The worker is restarted after a lost call, so that each test is judged on its own.

    Attributes:
        calls: calls made so far.
        received: whether anything of the program's making has come back.
        space: the names of the tests; instances of their own classes may cross.
        raised: the exception that the last call raised here, if it raised one.
        loss: verdict and message of the last loss, or of the failed loading.
    """

    def __init__(
        self, worker: SandboxWorker, program: str, entry_point: str, limits: dict[str, Any], classes: Sequence[str] = ()
    ) -> None:
        self.calls = 0
        self.received = False
        self.space: Mapping[str, Any] = {}
        self.raised: Exception | None = None
        self.loss: tuple[str, str] = ("", "")
        self._worker, self._limits = worker, limits
        self._losses = 0
        self._allowance = Allowance(limits["seconds"], limits["total_seconds"], limits["wall_factor"])
        self._channel: socket.socket | None = None
        self._called: tuple[tuple[Any, ...], dict[str, Any]] | None = None
        self._outcome = ""
        self._value: Any = None
        wanted = ("memory", "file_size", "open_files", "processes")
        # whole seconds, a little more than the clock allows: a spinning program meets the clock first
        order = {name: limits[name] for name in wanted} | {"cpu": int(limits["total_seconds"]) + 2}
        self._name = entry_point
        self._program = [order, program, entry_point, [*classes]]
        self._classes = frozenset(classes)
        self._excuse: Callable[[], str] = str

    def open(self) -> None:
        """Start the child and load the program.

        Raises:
            StopTests: the program does not load; `loss` holds the reason.
            LostError: the worker is gone.
        """
        self._channel = self._worker.begin()
        try:
            self._allowance.take(self._channel)
            self._begin()
            wire.send(self._channel, self._program, self._limits["program"], wait=self._allowance.elapse)
        except wire.NotPlainError:
            self._stop("error", f"the program is longer than {self._limits['program']} bytes")
        except (OSError, EOFError) as error:
            raise LostError("the child was gone before it had the program") from error
        try:
            reply = self._receive(self._channel)
        except (OSError, EOFError, wire.MalformedError) as error:
            self._lose(error, "loading the program")
            raise StopTests from error
        match reply:
            case ["loaded", True]:
                return
            case ["loaded", False]:
                self._stop("error", f"the program defines no function {self._name!r}")
            case ["raised", [*names], _, str(message)]:
                self._stop("memory" if "MemoryError" in names else "error", message)
        self._stop("error", "loading the program: it wrote into the reply channel")

    def call(self, *positional: Any, **named: Any) -> Any:
        """The candidate: call the program's function; return its result.

        It may change the arguments in place.

        Raises:
            Exception: what the program raised, as the builtin it derives from; else CandidateError.
            WorkerLostError: the child was lost.
            StopTests: too many losses, or no time left.
            TestsFault: an argument is no plain value, whatever the program does.
        """
        self.calls += 1
        self.forget()
        self._called = positional, named
        if self._channel is None:
            self.open()
        assert self._channel is not None
        token = os.urandom(8).hex()
        self._begin()
        try:
            body = [token, list(positional), named]
            wire.send(self._channel, body, describe=self.describe, wait=self._allowance.elapse)
            reply = self._receive(self._channel)
        except wire.NotPlainError as error:
            raise self._unsent(error) from error
        except (OSError, EOFError, wire.MalformedError) as error:
            raise self._lose(error, self.last) from error
        self.received = True
        match reply:
            case [given, "value", value, changed] if given == token:
                self._outcome, self._value = "returned", value
                self._take_back(changed)
                return value
            case [given, "refused", str(message)] if given == token:
                self._outcome = f"returned {message}"
                self.raised = CandidateError(message)
                raise self.raised
            case [given, "raised", [*names], [*values], str(message), changed] if given == token:
                self._outcome = f"raised {message}"
                self._take_back(changed)
                self.raised = _exception(names, values) or CandidateError(message)
                raise self.raised
        raise self._lose(wire.MalformedError("not an answer to this call"), self.last)

    @property
    def last(self) -> str:
        """The last call and what came of it, for messages; empty if there was none."""
        if self._called is None:
            return ""
        positional, named = self._called
        values = [*map(show, positional), *(f"{name}={show(value)}" for name, value in named.items())]
        outcome = f"returned {show(self._value)}" if self._outcome == "returned" else self._outcome
        return f"{self._name}({', '.join(values)}) {outcome}".rstrip()

    def forget(self) -> None:
        """Another test begins: what was called last has nothing to do with it."""
        self.raised, self._called, self._outcome, self._value = None, None, "", None

    def excuse(self, why: Callable[[], str]) -> None:
        """Set the function that returns the reason why an argument cannot be sent, "" if it can."""
        self._excuse = why

    def describe(self, value: Any) -> tuple[str, wire.Fields] | None:
        """An instance of a class of the tests, as its name and attributes."""
        kind = type(value)
        if self._class(kind.__name__) is not kind or not hasattr(value, "__dict__"):
            return None
        return kind.__name__, vars(value)

    def make(self, name: str, fields: wire.Fields) -> Any:
        """The inverse: no code of the program's has a part in it, nor in what its methods do."""
        kind = self._class(name)
        if kind is None:
            raise wire.MalformedError(f"a record of an unknown class {name!r:.60}")
        instance: Any = object.__new__(kind)
        vars(instance).update(fields)
        return instance

    def _class(self, name: str) -> type | None:
        kind = self.space.get(name) if name in self._classes else None
        if not isinstance(kind, type) or kind.__module__ != TESTS:
            return None
        if vars(kind).get("__repr__") is None and kind.__mro__[1] is object:  # which shows an address, never the same
            setattr(kind, "__repr__", _shown_record)  # noqa: B010
        return kind

    def close(self) -> None:
        """Have the child ended; its end is awaited when the worker is used next."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
            self._worker.end()

    def _begin(self) -> None:
        try:
            self._allowance.begin()
        except OverError:
            self._stop("timeout", f"took longer than {self._limits['total_seconds']:g} s in all")

    def _receive(self, channel: socket.socket) -> Any:
        allowance = self._allowance
        return wire.receive(
            channel, self._limits["reply"], make=self.make, wait=allowance.elapse, check=allowance.check
        )

    def _unsent(self, error: wire.NotPlainError) -> BaseException:
        """The fault is the tests', unless they pass on what the program made."""
        reason = self._excuse() if self.received else str(error)
        if reason:
            return TestsFault(f"the tests pass an argument that {reason}")
        self._outcome = f"was not called, with what the program made of an argument, which {error}"
        self.raised = CandidateError(self._outcome)
        return self.raised

    def _stop(self, verdict: str, message: str) -> None:
        self.loss = (verdict, message)
        raise StopTests

    def _take_back(self, changed: Any) -> None:
        """Do to the caller's arguments what the program did to its copies of them."""
        if changed is not None and self._called is not None:
            positional, named = self._called
            self._called = copy.deepcopy(self._called)  # messages show what was passed
            _restore([[*positional], named], changed)

    def _lose(self, error: Exception, during: str) -> WorkerLostError:
        """End the child, and say what it was."""
        over = self._allowance.end()
        self.close()
        self.loss = self._reason(error, self._worker.settle(), during)
        self._losses += 1
        if self._losses >= self._limits["timeouts"] or over:
            raise StopTests from error
        return WorkerLostError(self.loss[1])

    def _reason(self, error: Exception, status: int, during: str) -> tuple[str, str]:
        if isinstance(error, BlockingIOError):
            return "timeout", f"{during} took longer than {error} s"
        if isinstance(error, wire.MalformedError):
            what = "returned more than is allowed" if "more than" in str(error) else "wrote into the reply channel"
            return "error", f"{during} {what}"
        if os.WIFSIGNALED(status):
            signal_number = os.WTERMSIG(status)
            if signal_number == signal.SIGXCPU:
                return "timeout", f"{during} used up its processor time"
            named = {member.value: member.name for member in signal.Signals}
            return "killed", f"{during} was ended by {named.get(signal_number, f'signal {signal_number}')}"
        code = os.waitstatus_to_exitcode(status)
        if code == OUT_OF_MEMORY:
            return "memory", f"{during} ran out of memory"
        return "killed", f"{during} ended its process with code {code}"


# digits without end, a nest without bottom; and a `__repr__` of the tests' own classes, with attributes of any type
_UNSHOWN = (ValueError, RecursionError, MemoryError, TypeError, AttributeError, LookupError, ArithmeticError)


def _shown_record(record: Any) -> str:
    return f"{type(record).__name__}({', '.join(f'{name}={value!r}' for name, value in vars(record).items())})"


def show(value: Any) -> str:
    """A value in a message, cut short."""
    try:
        text = repr(value)
    except _UNSHOWN:
        text = f"<{type(value).__name__} too large to show>"
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def _exception(names: list[Any], values: list[Any]) -> Exception | None:
    """The nearest builtin exception.

    `SystemExit` and its like are none, so that no test ends by them.
    """
    for name in names:
        kind = getattr(builtins, name, None) if type(name) is str and name not in _ENDS else None
        if isinstance(kind, type) and issubclass(kind, Exception):
            try:
                return kind(*values)
            except (TypeError, ValueError, OverflowError):
                continue
    return None


def _restore(old: Any, new: Any) -> None:
    """Make the caller's containers hold what the program left in its copies of them."""
    if type(old) is not type(new):
        return
    if type(old) is list:
        old[:] = [_merged(a, b) for a, b in zip(old, new, strict=False)] + new[len(old) :]
    elif type(old) is tuple and len(old) == len(new):
        for a, b in zip(old, new, strict=True):
            _restore(a, b)
    elif type(old) is dict:
        merged = {key: _merged(old.get(key), value) for key, value in new.items()}
        old.clear()
        old.update(merged)
    elif type(old) is set:
        old.intersection_update(new)
        old.update(new)
    elif type(old) is bytearray:
        old[:] = new
    elif is_record(old):
        _restore(vars(old), vars(new))


def _merged(old: Any, new: Any) -> Any:
    """Value that replaces `old`: `old` itself, changed, if it is a container of the same kind."""
    if type(old) is type(new):
        if is_record(old):
            _restore(old, new)
            return old
        if type(old) in (list, dict, set, bytearray, tuple):
            _restore(old, new)
            return old if old == new else new
    return new


def is_record(value: Any) -> bool:
    """Return True where a value that has crossed is an instance of a class of the tests."""
    return type(value).__module__ == TESTS
