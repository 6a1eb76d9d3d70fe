"""Subsampling of sources by their shares, to compare mixes at equal size and compute."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from palaver.trainers.trajectories.index import TrajectoryEntry
from palaver.trainers.trajectories.reader import Reader


def sized(reader: Reader, taught: float, decisions: float, seed: int) -> Reader:
    """Subsample a reader to about `decisions` decisions, about `taught` of them imitated.

    The others train the value only, see `TrajectoryEntry.taught`. The former determine what can be learnt from a
    source, all together its cost.

    Whole trajectories are taken, in an order given by the seed: policy-training ones until `taught` is reached, then
    others until `decisions` is, that is those that train the value only and after them the first kind muted. It stops
    at the nearest sum. If there are too few, the order is repeated from the beginning, so that the counts of two
    trajectories of a kind differ by at most one. A source that is wanted whole is taken whole.

    Args:
        reader: of a source, with one trajectory or more.
        taught: number of policy-training decisions; with 0 or less none of those trajectories is taken.
        decisions: total number of decisions.
        seed: of the choice.
    """
    order = np.random.default_rng(seed).permutation(len(reader.entries)).tolist()
    teach = [n for n in order if reader.entries[n].taught]
    candidates = [(n, reader.entries[n]) for n in order if not reader.entries[n].taught]
    candidates += [(n, replace(reader.entries[n], mute=True)) for n in teach if not reader.entries[n].advised]
    chosen = _taken([(n, reader.entries[n]) for n in teach], lambda entry: entry.taught, taught)
    left = decisions - sum(entry.decisions for _, entry in chosen)
    chosen += _taken(candidates, lambda entry: entry.decisions, left)
    selected = copy.copy(reader)
    selected.entries = [entry for _, entry in sorted(chosen, key=lambda pair: pair[0])]
    return selected


def _taken(
    order: Sequence[tuple[int, TrajectoryEntry]], amount: Callable[[TrajectoryEntry], int], wanted: float
) -> list[tuple[int, TrajectoryEntry]]:
    """Take entries in order, cyclically, until their sum is nearest to the wanted amount."""
    chosen: list[tuple[int, TrajectoryEntry]] = []
    total = 0
    for index, entry in itertools.cycle(order):
        if wanted - total <= amount(entry) / 2:
            break
        chosen.append((index, entry))
        total += amount(entry)
    return chosen
