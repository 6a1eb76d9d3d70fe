"""What pools of worker processes share: they are closed with their block, and one serves a whole process."""

from __future__ import annotations

import atexit
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import TracebackType
from typing import Generic, ParamSpec, Self, TypeVar


class Closing(ABC):
    """A context manager that closes itself."""

    @abstractmethod
    def close(self) -> None:
        """End what it holds; a second time does nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


P = ParamSpec("P")
C = TypeVar("C", bound=Closing)


class OfThisProcess(Generic[P, C]):
    """One object for each process, made at first use and closed at the process's end; a forked copy makes its own."""

    def __init__(self, make: Callable[P, C]) -> None:
        self._make = make
        self._made: dict[int, C] = {}
        self._lock = threading.Lock()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> C:
        """The object of this process; the arguments count at the first use alone."""
        with self._lock:
            found = self._made.get(os.getpid())
            if found is None:
                found = self._made[os.getpid()] = self._make(*args, **kwargs)
                atexit.register(found.close)
            return found
