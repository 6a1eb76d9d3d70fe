"""As much from each source as its share asks, so that mixes are compared at equal size and compute."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Iterable

import numpy as np

from palaver.trainers.battles.reader import Reader


def sized(reader: Reader, taught: float, decisions: float, seed: int) -> Reader:
    """About so many decisions of a reader, and about so many among them that teach the policy: the others teach the
    value alone, see `palaver.trainers.battles.index.Entry.taught`. The first say what can be learnt from a source, all
    together what that costs.

    Whole trajectories are taken, in an order that the seed decides: those that teach the policy until these are as
    wanted, then those that do not until all are. It ends with the one that comes nearest. Where there are too few they
    are taken again from the beginning, so that none stands there twice more often than another of its kind. What is
    wanted whole is whole.

    Args:
        reader: of a source, with one trajectory or more.
        taught: decisions wanted that teach the policy; with 0 or less no trajectory of those is taken.
        decisions: wanted in all.
        seed: of the choice.
    """
    made = copy.copy(reader)
    order = np.random.default_rng(seed).permutation(len(reader.entries)).tolist()
    lengths = [entry.decisions for entry in reader.entries]
    teach = [entry.taught for entry in reader.entries]
    chosen = _taken([n for n in order if teach[n]], teach, taught)
    left = decisions - sum(lengths[n] for n in chosen)
    chosen += _taken([n for n in order if not teach[n]], lengths, left)
    made.entries = [reader.entries[n] for n in sorted(chosen)]
    return made


def _taken(order: Iterable[int], amounts: list[int], wanted: float) -> list[int]:
    """As many of the order, over and over, as come nearest to what is wanted in sum."""
    chosen: list[int] = []
    total = 0
    for n in itertools.cycle(order):
        if wanted - total <= amounts[n] / 2:
            break
        chosen.append(n)
        total += amounts[n]
    return chosen
