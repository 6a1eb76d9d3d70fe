"""As many decisions from each source as its share asks, so that mixes are compared at equal size."""

from __future__ import annotations

import copy
import itertools

import numpy as np

from palaver.trainers.battles.reader import Reader


def sized(reader: Reader, decisions: float, seed: int) -> Reader:
    """About so many decisions of a reader, whole trajectories in an order that the seed decides.

    It ends with the trajectory that comes nearest. A reader that holds fewer is taken again from its beginning, so that
    no trajectory stands there twice more often than another. What is wanted whole is whole.

    Args:
        reader: of a source, with one trajectory or more.
        decisions: wanted; with 0 or less no trajectory is taken.
        seed: of the choice.
    """
    made = copy.copy(reader)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(reader.entries)).tolist()
    chosen: list[int] = []
    total = 0
    for place in itertools.cycle(order):
        length = reader.entries[place].decisions
        if decisions - total <= length / 2:
            break
        chosen.append(place)
        total += length
    made.entries = [reader.entries[place] for place in sorted(chosen)]
    return made
