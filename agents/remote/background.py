"""One event loop for all remote calls of a process, in a thread of its own.

Callers may be in any thread. A forked child has none of its parent's threads, so it gets a loop of its own.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


class _Thread:
    """Holds the loop of this process."""

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
