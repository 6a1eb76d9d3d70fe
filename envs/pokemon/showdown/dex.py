"""Public data of a generation from the simulator: moves, species, items, abilities, types."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from palaver.envs.pokemon.showdown.errors import ShowdownError
from palaver.envs.pokemon.showdown.pool import shared_pool


class Move(TypedDict):
    """A move of the Pokédex.

    Further keys (`priority`, `drain`, `boosts`, `secondaries`, ...) are present where they apply.

    Keys:
        category: physical, special or status, by type up to generation 3.
        power: 0 for status moves and for some that compute it, which say `varies`.
        accuracy: in percent; None: it cannot miss.
        pp: the most it can have.
        about: one sentence.
    """

    name: str
    type: str
    category: str
    power: int
    accuracy: int | None
    pp: int
    target: str
    flags: list[str]
    about: str
    priority: NotRequired[int]
    status: NotRequired[str]
    volatileStatus: NotRequired[str]  # the simulator's own keys
    boosts: NotRequired[dict[str, int]]
    self: NotRequired[dict[str, Any]]
    secondaries: NotRequired[list[dict[str, Any]]]
    varies: NotRequired[bool]


class Species(TypedDict):
    """A species or forme.

    `stats` are hp, attack, defence, special attack, special defence, speed.
    """

    name: str
    base: str
    types: list[str]
    stats: list[int]
    abilities: list[str]
    weight: float
    tier: str


@dataclass(frozen=True)
class Dex:
    """The tables of one generation, by id. They are shared: do not write to them."""

    gen: int
    moves: Mapping[str, Move]
    species: Mapping[str, Species]
    items: Mapping[str, Mapping[str, str]]
    abilities: Mapping[str, Mapping[str, str]]
    chart: Mapping[str, Mapping[str, float]]

    def effectiveness(self, attacking: str, defending: Iterable[str]) -> float:
        """Damage multiplier of a type against types: 0, 1/4, 1/2, 1, 2 or 4; unknown types count 1."""
        return math.prod(self.chart.get(attacking, {}).get(kind, 1.0) for kind in defending)


@functools.cache
def load(gen: int) -> Dex:
    """The tables of generation 1 to 9.

    Raises:
        ShowdownError: no such generation, no Node.js, or no simulator.
    """
    if gen not in range(1, 10):
        raise ShowdownError(f"there is no generation {gen!r:.20}; generations go from 1 to 9")
    return Dex(gen, **shared_pool().request([["dex", gen]])[0])
