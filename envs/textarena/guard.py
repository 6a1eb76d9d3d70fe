"""Calls into games: one at a time, bounded, with own random numbers, without the network."""

from __future__ import annotations

import ctypes
import os
import random
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from palaver.core import PalaverError
from palaver.text import one_line

MOST_S = 20.0  # of computing in a call; building a board of RushHour takes 5
_POLL_S = 0.5
_ONE_AT_A_TIME = threading.RLock()  # games draw from the generators of the process
_caller = threading.local()  # `watched`: True within a call; `reached`: what the game asked for
_REACHES = {
    "socket.connect": "the network",
    "socket.sendto": "the network",
    "socket.getaddrinfo": "the network",
    "socket.gethostbyname": "the network",
    "subprocess.Popen": "another program",
    "os.system": "another program",
    "os.exec": "another program",
    "os.posix_spawn": "another program",
    "os.fork": "another program",
}
_PACKAGES = re.compile(r"/\S*site-packages/")  # the place on this machine, in messages
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class GameError(PalaverError):
    """An error of a game."""


class ReachError(GameError):
    """A game that asks for the network, a program or a file to write."""


class _RefusalError(BaseException):
    """Error in a game that reaches out; no `except Exception` of the game catches it."""


class _OverError(BaseException):
    """Error in a game that computes for too long."""


@dataclass
class RandomState:
    """State of the generators that games use, those of the modules `random` and `numpy.random`."""

    python: Any = field(default_factory=lambda: random.Random(0).getstate())
    numpy: Any = field(default_factory=lambda: np.random.RandomState(0).get_state())

    @classmethod
    def seeded(cls, seed: int) -> RandomState:
        """The state of generators with that seed."""
        return cls(random.Random(seed).getstate(), np.random.RandomState(seed % 2**32).get_state())


@contextmanager
def guarded(state: RandomState) -> Iterator[None]:
    """Run a block with these random numbers; the process has its own again afterwards.

    Args:
        state: of the generators before the block; it becomes the one after it.

    Raises:
        GameError: the block raised an exception of any kind, or computed for more than `MOST_S` seconds.
        ReachError: it asked for the network, a program or a file to write, even if it went on without.
    """
    with _ONE_AT_A_TIME:
        _watch_process()
        own = random.getstate(), np.random.get_state()
        random.setstate(state.python)
        np.random.set_state(state.numpy)
        _caller.watched, _caller.reached = True, ""
        try:
            with _bounded():
                yield
        except _RefusalError:
            pass  # raised below
        except _OverError:
            raise GameError(f"it computes for more than {MOST_S:g} seconds") from None
        except GameError:
            raise
        except (Exception, SystemExit) as error:  # somebody else's code, on texts that models wrote
            if not _caller.reached:
                raise GameError(_described(error)) from error
        finally:
            _caller.watched = False
            state.python, state.numpy = random.getstate(), np.random.get_state()
            random.setstate(own[0])
            np.random.set_state(own[1])
    if _caller.reached:
        raise ReachError(f"it asks for {_caller.reached}")


def _described(error: BaseException) -> str:
    if isinstance(error, SyntaxError):
        return one_line(f"it is not written for Python {sys.version_info[0]}.{sys.version_info[1]}: {error}", 200)
    return one_line(f"{type(error).__name__}: {_PACKAGES.sub('', str(error))}", 200)


@contextmanager
def _bounded() -> Iterator[None]:
    """Raise `_OverError` in a block that computes for too long, from another thread."""
    call = _clocks.begin()
    try:
        yield
    except _OverError:
        call.struck = False
        raise
    finally:
        _clocks.end(call)


class _Call:
    """A call in progress, with the computing time of its thread."""

    def __init__(self) -> None:
        self.thread, self.struck = threading.get_ident(), False
        self.clock = _clock(self.thread)
        self.start = self.clock()


class _Clocks:
    """Watch over the call in progress, of which there is one at a time."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._call: _Call | None = None
        self._striking = threading.Lock()

    def begin(self) -> _Call:
        """Watch a call of this thread; a forked process has lost the thread that watches."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=self._run, daemon=True, name="textarena-clock")
            self._thread.start()
        self._call = _Call()
        return self._call

    def end(self, call: _Call) -> None:
        """End the call; an error that is under way is raised here."""
        with self._striking:
            self._call = None
        for _ in range(100):  # the game may have swallowed it
            if not call.struck:
                return
            time.sleep(0.01)

    def _run(self) -> None:
        while True:
            time.sleep(_POLL_S)
            with self._striking:
                call = self._call
                if call is not None and call.clock() - call.start > MOST_S:
                    call.struck = True
                    ctypes.pythonapi.PyThreadState_SetAsyncExc(
                        ctypes.c_ulong(call.thread), ctypes.py_object(_OverError)
                    )


def _clock(thread: int) -> Callable[[], float]:
    """Computing time of a thread; where the system does not tell, the time of day."""
    if not hasattr(time, "pthread_getcpuclockid"):
        return time.monotonic
    clock = time.pthread_getcpuclockid(thread)
    return lambda: time.clock_gettime(clock)


_clocks = _Clocks()
_watching = False


def _watch_process() -> None:
    """Install the hook with the first game: a process cannot lose one again."""
    global _watching
    if not _watching:
        sys.addaudithook(_watch)
        _watching = True


def _watch(event: str, args: tuple[Any, ...]) -> None:
    if not getattr(_caller, "watched", False):
        return
    reached = _REACHES.get(event, "")
    if event == "open" and len(args) == 3 and (args[2] or 0) & _WRITES:
        file = args[0]  # the number of a file that is open already, or its path; an import writes bytecode by both
        if not isinstance(file, int) and ".pyc" not in str(file):
            reached = "a file to write"
    if reached:
        _caller.reached = _caller.reached or reached
        raise _RefusalError(reached)
