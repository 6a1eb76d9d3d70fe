"""Folders of battles: writer and index; a battle is on the disk whole, or not there.

A folder holds numbered shards, each with `NNN.blocks` (the decisions) and `NNN.jsonl` (a JSON line per battle,
written after its bytes). A battle is there when its line is; what a kill has cut, in either file, is not read and is
taken away by the next writer. A line also brings the words that its battle was the first of the shard to use, so that
the lines up to it are the table of words.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from filelock import FileLock, Timeout

from palaver.core import CheckpointError, ConfigError
from palaver.text import one_line
from palaver.trainers.trajectories.columns import pack
from palaver.trainers.trajectories.record import MISSING, BattleSide, Trajectory

BLOCKS, INDEX, LOCK = ".blocks", ".jsonl", ".lock"
VERSION = 2  # 1 did not tell what teaches
FIRST = json.dumps({"battles": VERSION}) + "\n"


@dataclass(frozen=True, slots=True)
class TrajectoryEntry(BattleSide):
    """One trajectory of a folder, without its decisions.

    Attributes:
        decisions: how many.
        known: of how many the action is known or a coach was asked.
        advised: of how many a coach was asked.
        shard: number of its file.
        at: where its bytes begin.
        size: how many bytes.
        mute: what it played teaches nothing, see `Reader.mute`; is no part of the index.
    """

    decisions: int
    known: int
    advised: int
    shard: int
    at: int
    size: int
    mute: bool = False

    @property
    def taught(self) -> int:
        """Decisions that teach a policy; the others teach the value alone."""
        return self.advised if self.mute else self.known


_SHARED = ("battle", "format", "teamset", "task", "seed")
_OWN = ("side", "player", "opponent", "result", "decisions", "known", "advised", "at", "size")


@dataclass
class Shard:
    """The index of one file.

    Attributes:
        entries: in the order in which they were written, both sides of a battle together.
        table: words by id.
        length: bytes of the index that are sound.
        end: bytes of the blocks that they speak of.
    """

    entries: list[TrajectoryEntry] = field(default_factory=list)
    table: list[str] = field(default_factory=lambda: [""])
    length: int = 0
    end: int = 0


def line(entries: Sequence[TrajectoryEntry], words: Sequence[str]) -> str:
    """The line of a battle.

    Args:
        entries: its sides.
        words: those that the shard did not know before.
    """
    shared = {name: getattr(entries[0], name) for name in _SHARED}
    sides = [{name: getattr(entry, name) for name in _OWN} for entry in entries]
    return json.dumps({**shared, "sides": sides, "words": list(words)}, separators=(",", ":")) + "\n"


def shards(folder: Path) -> list[int]:
    """The numbers of a folder's shards, in order."""
    return sorted(int(path.stem) for path in folder.glob(f"*{INDEX}") if path.stem.isdecimal())


def battles(folder: Path) -> set[str]:
    """The names of all battles of a folder, which may be missing.

    Raises:
        CheckpointError: it holds something else.
    """
    return {entry.battle for shard in shards(folder) for entry in read(folder, shard).entries}


def path(folder: Path, shard: int, suffix: str) -> Path:
    """A file of a shard."""
    return folder / f"{shard:03d}{suffix}"


def read(folder: Path, shard: int) -> Shard:
    """The whole lines of a shard whose bytes are all there; the rest was cut.

    Raises:
        CheckpointError: a whole line is none of ours.
    """
    file, blocks = path(folder, shard, INDEX), path(folder, shard, BLOCKS)
    data = file.read_bytes()
    room = blocks.stat().st_size if blocks.exists() else 0
    contents = Shard()
    for line_number, text in enumerate(data.split(b"\n")[:-1], start=1):
        try:
            values = json.loads(text)
            if line_number == 1:
                if values != json.loads(FIRST):
                    raise ValueError(f"it does not begin with {FIRST.strip()}")
            else:
                entries = _entries(values, shard)
                end = max(entry.at + entry.size for entry in entries)
                if end > room:
                    break
                contents.entries += entries
                contents.table += [str(word) for word in values["words"]]
                contents.end = end
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CheckpointError(
                f"{str(file)!r}, line {line_number}, is no index of battles: {one_line(error)}; take the file away, or "
                "choose another folder"
            ) from error
        contents.length += len(text) + 1
    return contents


def _entries(values: dict[str, Any], shard: int) -> list[TrajectoryEntry]:
    shared = {name: values[name] for name in _SHARED}
    return [TrajectoryEntry(**shared, **{name: side[name] for name in _OWN}, shard=shard) for side in values["sides"]]


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
            self.shard, self._lock = _take(folder)
            self._index = path(folder, self.shard, INDEX).open("ab")
            self._blocks = path(folder, self.shard, BLOCKS).open("ab")
        except OSError as error:
            raise ConfigError(f"cannot write {str(error.filename or folder)!r}: {error.strerror}") from error
        mine = read(folder, self.shard)
        self._index.truncate(mine.length)
        self._blocks.truncate(mine.end)
        if not mine.length:
            self._index.write(FIRST.encode())
            self._index.flush()
        self._end = mine.end
        self._table = _Table(mine.table)
        self._known = battles(folder)

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
            self._append(self._index, [line(entries, self._table.fresh).encode()])
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
        self._lock.release()

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


def _take(folder: Path) -> tuple[int, FileLock]:
    """Lock the first shard that no process writes."""
    shard = 0
    while True:
        lock = FileLock(path(folder, shard, LOCK), blocking=False, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            shard += 1
        else:
            return shard, lock


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
