"""Writing battles: each is on the disk whole, or not there, whenever the process is killed."""

from __future__ import annotations

import fcntl
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

from palaver.core import ConfigError
from palaver.trainers.trajectories import index
from palaver.trainers.trajectories.columns import pack
from palaver.trainers.trajectories.index import BLOCKS, FIRST, INDEX, TrajectoryEntry
from palaver.trainers.trajectories.record import MISSING, Trajectory


class Writer:
    """Appends battles to a folder.

    Several processes may write into one folder: each takes a shard of its own.

    Args:
        folder: is made where it is missing; what it holds stays. What a kill has cut of the shard is taken away.

    Raises:
        ConfigError: it cannot be written.
        CheckpointError: it holds something else.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.shard, self._index = _take(folder)
            self._blocks = index.path(folder, self.shard, BLOCKS).open("ab")
        except OSError as error:
            raise ConfigError(f"cannot write {str(error.filename or folder)!r}: {error.strerror}") from error
        mine = index.read(folder, self.shard)
        self._index.truncate(mine.length)
        self._blocks.truncate(mine.end)
        if not mine.length:
            self._index.write(FIRST.encode())
            self._index.flush()
        self._end = mine.end
        self._table = _Table(mine.table)
        self._known = index.battles(folder)

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __contains__(self, battle: str) -> bool:
        """Return whether the folder held the battle at the start, or got it from this writer."""
        return battle in self._known

    def add(self, *sides: Trajectory) -> bool:
        """Append one battle; False where the folder holds one of that name.

        Args:
            sides: one or both of its trajectories.

        Raises:
            ValueError: they are not of one battle, twice the same side, or without decisions.
            ConfigError: the disk is full or gone. What was written before is sound.
        """
        shared = {(side.battle, side.format, side.teamset, side.task, side.seed) for side in sides}
        if len(shared) != 1 or len({side.side for side in sides}) < len(sides):
            raise ValueError("trajectories that are added together are the sides of one battle, each once")
        if not all(side.decisions for side in sides):
            raise ValueError("a trajectory has at least one decision")
        if sides[0].battle in self._known:
            return False
        blocks = [pack(side.decisions, self._table.ids) for side in sides]
        entries, at = [], self._end
        for side, block in zip(sides, blocks, strict=True):
            entries.append(_entry(side, self.shard, at, len(block)))
            at += len(block)
        try:
            self._append(self._blocks, blocks)
            self._append(self._index, [index.line(entries, self._table.fresh).encode()])
        except OSError as error:
            raise ConfigError(f"cannot write battles into {str(self.folder)!r}: {error.strerror}") from error
        self._end = at
        self._table.fresh = []
        self._known.add(sides[0].battle)
        return True

    def close(self) -> None:
        """Let the shard go to who writes next."""
        self._blocks.close()
        self._index.close()

    @staticmethod
    def _append(file: BinaryIO, parts: Sequence[bytes]) -> None:
        file.write(b"".join(parts))
        file.flush()


class _Table:
    """Word -> id; a word that it does not know gets the next, and is one of the fresh ones."""

    def __init__(self, words: Sequence[str]) -> None:
        self._known = {word: id for id, word in enumerate(words)}
        self.fresh: list[str] = []

    def ids(self, words: list[str]) -> list[int]:
        """Of each word."""
        known = self._known
        try:
            return [known[word] for word in words]
        except KeyError:  # not many battles bring a new one
            for word in words:
                if word not in known:
                    known[word] = len(known)
                    self.fresh.append(word)
            return [known[word] for word in words]


def _take(folder: Path) -> tuple[int, BinaryIO]:
    """Lock the first shard that no process writes, until its index is closed."""
    shard = 0
    while True:
        file = index.path(folder, shard, INDEX).open("ab")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.close()
            shard += 1
        else:
            return shard, file


def _entry(side: Trajectory, shard: int, at: int, size: int) -> TrajectoryEntry:
    advised = [decision.advice is not None for decision in side.decisions]
    known = sum(
        decision.slot != MISSING or has_advice for decision, has_advice in zip(side.decisions, advised, strict=True)
    )
    return TrajectoryEntry(
        **side.about(),
        decisions=len(side.decisions),
        known=known,
        advised=sum(advised),
        shard=shard,
        at=at,
        size=size,
    )
