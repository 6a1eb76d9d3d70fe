"""Parts of worker pools: bounded waits, closing on exit, one object per process."""

from __future__ import annotations

import atexit
import contextlib
import os
import subprocess
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, Generic, ParamSpec, Self, TypeVar

from palaver.core import PalaverWarning

KILLED_S = 10.0  # wait for a killed process, which the kernel may keep while it waits for a device


def wait_or_kill(process: subprocess.Popen[Any], patience: float = 0.0) -> int | None:
    """Wait `patience` seconds for a process to exit, then kill it; return the exit code.

    If it still exists `KILLED_S` seconds later, a warning is issued and None returned.
    """
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(patience)
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        return process.wait(KILLED_S)
    _warn_alive(process.pid)
    return None


def join_or_kill(process: BaseProcess, patience: float = 0.0) -> int | None:
    """`wait_or_kill` for a process of the module `multiprocessing`."""
    process.join(patience)
    if process.exitcode is None:
        process.kill()
        process.join(KILLED_S)
    if process.exitcode is None:
        _warn_alive(process.pid)
    return process.exitcode


def _warn_alive(pid: int | None) -> None:
    warnings.warn(f"the process {pid} was killed {KILLED_S:g} seconds ago and is still there", PalaverWarning, 3)


class Closing(ABC):
    """Context manager that calls `close` on exit."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources; a second call does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


P = ParamSpec("P")  # of the constructor
C = TypeVar("C", bound=Closing)


class ProcessLocal(Generic[P, C]):
    """One object per process, forked ones included, made at first use and closed at exit."""

    def __init__(self, make: Callable[P, C]) -> None:
        self._make = make
        self._instances: dict[int, C] = {}
        self._lock = threading.Lock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """Return the object of this process; arguments are used in the first call only."""
        with self._lock:
            instance = self._instances.get(os.getpid())
            if instance is None:
                instance = self._instances[os.getpid()] = self._make(*args, **kwargs)
                atexit.register(instance.close)
            return instance
