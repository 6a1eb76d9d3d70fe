"""Reader of battles: by index, in order, or a selection; decisions are read lazily."""

from __future__ import annotations

import copy
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from palaver.core import CheckpointError
from palaver.text import one_line
from palaver.trainers.trajectories import files
from palaver.trainers.trajectories.columns import Columns, unpack
from palaver.trainers.trajectories.files import BLOCKS, TrajectoryEntry
from palaver.trainers.trajectories.record import MISSING, Trajectory

Wanted = str | float | Collection[str] | Collection[float] | None


class Reader:
    """The trajectories of a folder, in the order in which they were written, shard after shard.

    What is written later is not seen. The index is held in memory, the decisions never are.

    Args:
        folder: that a `Writer` has filled, or is filling.

    Attributes:
        entries: one for each trajectory.
        tables: shard -> its words by id.

    Raises:
        CheckpointError: it holds no battles, or something else.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = Path(folder)
        numbers = files.shards(self.folder)
        if not numbers:
            raise CheckpointError(
                f"there are no battles in {str(folder)!r}; record some: palaver arena pokemon-v1 --record {folder}"
            )
        shards = {shard: files.read(self.folder, shard) for shard in numbers}
        self.tables: Mapping[int, Sequence[str]] = {shard: contents.table for shard, contents in shards.items()}
        once = {(entry.battle, entry.side): entry for shard in reversed(numbers) for entry in shards[shard].entries}
        self.entries: Sequence[TrajectoryEntry] = [
            entry for shard in numbers for entry in shards[shard].entries if once[entry.battle, entry.side] is entry
        ]

    def __len__(self) -> int:
        return len(self.entries)

    def __iter__(self) -> Iterator[Trajectory]:
        return (self[n] for n in range(len(self)))

    def __getitem__(self, n: int) -> Trajectory:
        """A trajectory.

        Raises:
            IndexError: there are fewer.
            CheckpointError: its bytes are damaged.
        """
        entry = self.entries[n]
        return Trajectory(**entry.about(), decisions=self.columns(n).decisions(self.tables[entry.shard]))

    def columns(self, n: int) -> Columns:
        """The decisions of a trajectory as arrays; ids are those of `tables[entries[n].shard]`.

        Raises:
            IndexError: there are fewer.
            CheckpointError: its bytes are damaged.
        """
        entry = self.entries[n]
        file = files.path(self.folder, entry.shard, BLOCKS)
        try:
            with file.open("rb") as blocks:
                blocks.seek(entry.at)
                columns = unpack(blocks.read(entry.size), self.tables[entry.shard])
        except (OSError, ValueError, KeyError, TypeError, IndexError, zlib.error) as error:
            raise CheckpointError(
                f"{entry.battle} cannot be read from {str(file)!r} at byte {entry.at}: {one_line(error)}"
            ) from error
        return replace(columns, slot=np.full_like(columns.slot, MISSING)) if entry.mute else columns

    def select(
        self,
        *,
        player: Wanted = None,
        opponent: Wanted = None,
        teamset: Wanted = None,
        result: Wanted = None,
        side: Wanted = None,
        format: Wanted = None,
    ) -> Reader:
        """The trajectories of which all this is true; each a value or several of them, None for any.

        Args:
            player: who chose.
            opponent: the other one.
            teamset: where the teams came from.
            result: 1, 0.5 or 0.
            side: `p1` or `p2`.
            format: of the battles.
        """
        filters = {
            "player": player,
            "opponent": opponent,
            "teamset": teamset,
            "result": result,
            "side": side,
            "format": format,
        }
        wanted = {name: _several(value) for name, value in filters.items() if value is not None}
        chosen = copy.copy(self)
        chosen.entries = [
            entry for entry in self.entries if all(getattr(entry, name) in some for name, some in wanted.items())
        ]
        return chosen

    def mute(self, *, player: Wanted = None, result: Wanted = None) -> Reader:
        """All trajectories; but in those of which this is not true every slot is `MISSING`.

        So they teach who will win, and what a coach has advised in them, but not what was played.

        Args:
            player: who chose.
            result: 1, 0.5 or 0.
        """
        selected = {id(entry) for entry in self.select(player=player, result=result).entries}
        reader = copy.copy(self)
        reader.entries = [entry if id(entry) in selected else replace(entry, mute=True) for entry in self.entries]
        return reader


def _several(value: str | float | Collection[str] | Collection[float]) -> Collection[str] | Collection[float]:
    if isinstance(value, str):
        return (value,)
    return (value,) if isinstance(value, int | float) else value
