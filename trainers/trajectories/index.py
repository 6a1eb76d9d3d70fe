"""Index of a folder of battles: a JSON line per battle, written after the battle's bytes.

A folder holds numbered shards, each with `NNN.blocks` (the decisions) and `NNN.jsonl` (the index). A battle is there
when its line is; what a kill has cut, in either file, is not read and is taken away by who writes next. A line also
brings the words that its battle was the first of the shard to use, so that the lines up to it are the table of words.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from palaver.core import CheckpointError
from palaver.text import one_line
from palaver.trainers.trajectories.record import BattleSide

BLOCKS, INDEX = ".blocks", ".jsonl"
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
