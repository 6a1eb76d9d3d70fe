"""Time since a run last wrote to its files, to tell a hanging run from a slow one."""

from __future__ import annotations

import time
from pathlib import Path

STALLED_S = 1800.0  # a step of training is over in minutes, its evaluation too


class Silence:
    """Watches the growth of the files of a run in another process.

    Args:
        files: that it appends to, such as its log and its metrics; they need not exist yet.
    """

    def __init__(self, *files: Path) -> None:
        self._files = files
        self._size, self._since = self._measure(), time.monotonic()

    def seconds(self) -> float:
        """Return the time since the last call that saw the files grow."""
        size, now = self._measure(), time.monotonic()
        if size != self._size:
            self._size, self._since = size, now
        return now - self._since

    def _measure(self) -> int:
        return sum(map(_size, self._files))


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except FileNotFoundError:
        return 0
