"""As much from each source as its share asks, so that mixes are compared at equal size and compute."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from palaver.trainers.trajectories.index import Entry
from palaver.trainers.trajectories.reader import Reader


def sized(reader: Reader, taught: float, decisions: float, seed: int) -> Reader:
    """About so many decisions of a reader, and about so many among them that teach the policy: the others teach the
    value alone, see `palaver.trainers.trajectories.index.Entry.taught`. The first say what can be learnt from a source,
    all together what that costs.

    Whole trajectories are taken, in an order that the seed decides: those that teach the policy until these are as
    wanted, then others until all are, that is those that teach the value alone and after them the first kind muted. It
    ends with the one that comes nearest. Where there are too few they are taken again from the beginning, so that none
    stands there twice more often than another of its kind. What is wanted whole is whole.

    Args:
        reader: of a source, with one trajectory or more.
        taught: decisions wanted that teach the policy; with 0 or less no trajectory of those is taken.
        decisions: wanted in all.
        seed: of the choice.
    """
    order = np.random.default_rng(seed).permutation(len(reader.entries)).tolist()
    teach = [n for n in order if reader.entries[n].taught]
    rest = [(n, reader.entries[n]) for n in order if not reader.entries[n].taught]
    rest += [(n, replace(reader.entries[n], mute=True)) for n in teach if not reader.entries[n].advised]
    chosen = _taken([(n, reader.entries[n]) for n in teach], lambda entry: entry.taught, taught)
    left = decisions - sum(entry.decisions for _, entry in chosen)
    chosen += _taken(rest, lambda entry: entry.decisions, left)
    made = copy.copy(reader)
    made.entries = [entry for _, entry in sorted(chosen, key=lambda pair: pair[0])]
    return made


def _taken(
    order: Sequence[tuple[int, Entry]], amount: Callable[[Entry], int], wanted: float
) -> list[tuple[int, Entry]]:
    """As many of the order, over and over, as come nearest to what is wanted in sum."""
    chosen: list[tuple[int, Entry]] = []
    total = 0
    for place, entry in itertools.cycle(order):
        if wanted - total <= amount(entry) / 2:
            break
        chosen.append((place, entry))
        total += amount(entry)
    return chosen
