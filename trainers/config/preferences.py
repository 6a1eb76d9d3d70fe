"""Selection of preference pairs from the joint actions of a group. Free of torch."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from palaver.utils.config import Section


class PairsConfig(Section):
    """Selection of pairs among the joint actions of a group."""

    select: Literal["all", "extremes"] = Field("all", description="all pairs of a group, or its best against its worst")
    gap: float = Field(0.0, ge=0, description="least difference of a pair's rewards; ties are never compared")
    most: int = Field(0, ge=0, description="most pairs of a group, drawn at random; 0 takes all")


class ComparedConfig(PairsConfig):
    """Pairs of MADPO, from the groups of each step or from a file."""

    file: str = Field(
        "", description="pairs by file or `hf:NAME:SPLIT`, train.prompts_per_step a step; empty: rollouts"
    )
    others: Literal["held", "joint"] = Field(
        "held",
        description="a policy knows the others' terms as they were (all update together), or as they have become (one "
        "after the other)",
    )


def choose(values: Sequence[float], config: PairsConfig, seed: int) -> list[tuple[int, int]]:
    """Select pairs (better, worse) of indices in a group, without ties.

    Args:
        values: value of each joint action of the group.
        config: selection of pairs.
        seed: seed of the draw, if there are more than `config.most`.

    >>> choose([1.0, 3.0, 1.0], PairsConfig(), 0)
    [(1, 0), (1, 2)]
    >>> choose([1.0, 3.0, 0.0], PairsConfig(select="extremes"), 0)
    [(1, 2)]
    """
    places = range(len(values))
    pairs = [(a, b) for a in places for b in places if values[a] > values[b] and values[a] - values[b] >= config.gap]
    if config.select == "extremes" and pairs:
        best, worst = (max(places, key=lambda n: sign * values[n]) for sign in (1, -1))
        pairs = [pair for pair in pairs if pair == (best, worst)]
    return some(pairs, config.most, seed)


def some(pairs: list[tuple[int, int]], max_pairs: int, seed: int) -> list[tuple[int, int]]:
    """Draw at most `max_pairs` of the pairs at random, in order; 0 takes all."""
    return sorted(random.Random(seed).sample(pairs, max_pairs)) if max_pairs and len(pairs) > max_pairs else pairs
