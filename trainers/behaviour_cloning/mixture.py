"""Mixture of several folders of battles, each with a share of the training data."""

from __future__ import annotations

import hashlib
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from palaver.core import ConfigError
from palaver.trainers.trajectories.columns import Columns
from palaver.trainers.trajectories.files import TrajectoryEntry
from palaver.trainers.trajectories.reader import Reader

Source = tuple[Reader | Path | str, float]


class Mixture(Reader):
    """The trajectories of all sources, one source after the other.

    Args:
        sources: readers or folders, each with a weight. A source's share of the decisions that are drawn is its weight
            over the sum of weights, whatever it holds; with one source each trajectory is drawn once in an epoch.

    Attributes:
        entries: of all, with shards renumbered.
        tables: of all.
        weights: one for each trajectory, None where each counts once.

    Raises:
        ConfigError: no source, a weight that is negative or not finite, none above 0, or no battle in one above 0.
        CheckpointError: a folder holds no battles.
    """

    def __init__(self, sources: Sequence[Source]) -> None:
        if not sources or not all(math.isfinite(weight) and weight >= 0 for _, weight in sources):
            raise ConfigError("cloning needs folders of battles, each with a weight of 0 or more")
        used = [(source, weight) for source, weight in sources if weight]
        if not used:
            raise ConfigError("all folders of battles have weight 0; nothing is left to learn from")
        readers = [source if isinstance(source, Reader) else Reader(Path(source)) for source, _ in used]
        empty = next((reader.folder for reader in readers if not reader.entries), None)
        if empty is not None:
            raise ConfigError(f"nothing is left to learn from in {str(empty)!r}: no trajectory was chosen")
        self.folder = readers[0].folder
        self._origins: list[tuple[Reader, int]] = []
        tables: dict[int, Sequence[str]] = {}
        entries: list[TrajectoryEntry] = []
        weights: list[float] = []
        for reader, (_, weight) in zip(readers, used, strict=True):
            first = len(tables)
            shards = {shard: first + n for n, shard in enumerate(reader.tables)}
            tables |= {shards[shard]: table for shard, table in reader.tables.items()}
            entries += [replace(entry, shard=shards[entry.shard]) for entry in reader.entries]
            weights += [weight / sum(entry.decisions for entry in reader.entries)] * len(reader.entries)
            self._origins += [(reader, n) for n in range(len(reader.entries))]
        self.entries: Sequence[TrajectoryEntry] = entries
        self.tables: Mapping[int, Sequence[str]] = tables
        self.weights: list[float] | None = weights if len(readers) > 1 else None

    def columns(self, n: int) -> Columns:
        """As of the source.

        Raises:
            CheckpointError: its bytes are damaged.
        """
        reader, index = self._origins[n]
        return reader.columns(index)

    def divide(self, share: float) -> tuple[Mixture, Mixture | None]:
        """Split into training data and about `share` of the battles, chosen by their names.

        Both sides of a battle are on one side of the split.

        Raises:
            ConfigError: nothing is left to learn from.
        """
        if not share:
            return self, None
        out = [zlib.crc32(entry.battle.encode()) / 2**32 < share for entry in self.entries]
        if all(out):
            raise ConfigError(f"held_out={share} leaves no battle of {len(out)} trajectories to learn from")
        return self._subset([not is_out for is_out in out]), self._subset(out) if any(out) else None

    def facts(self) -> dict[str, Any]:
        """Return the identity of the mixture as plain data, equal for equal mixtures."""
        names = "\n".join(
            f"{entry.battle} {entry.side} {entry.decisions}{' mute' * entry.mute}" for entry in self.entries
        )
        shares = "" if self.weights is None else f"{self.weights}"
        return {
            "trajectories": len(self.entries),
            "decisions": sum(entry.decisions for entry in self.entries),
            "digest": hashlib.sha256(f"{names}\n{shares}".encode()).hexdigest()[:16],
        }

    def _subset(self, chosen: Sequence[bool]) -> Mixture:
        mixture = Mixture.__new__(Mixture)
        places = [n for n, wanted in enumerate(chosen) if wanted]
        mixture.folder, mixture.tables = self.folder, self.tables
        mixture.entries = [self.entries[n] for n in places]
        mixture._origins = [self._origins[n] for n in places]
        mixture.weights = None if self.weights is None else [self.weights[n] for n in places]
        return mixture
