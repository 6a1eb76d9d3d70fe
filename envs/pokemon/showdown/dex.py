"""Public data of a generation from the simulator, and what follows from a view by it."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NotRequired, TypedDict

from palaver.envs.pokemon.showdown.errors import ShowdownError
from palaver.envs.pokemon.showdown.pool import shared_pool
from palaver.envs.pokemon.showdown.view import Mine, OpposingPokemon, Own, SideView, Theirs


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


STATS = ("atk", "def", "spa", "spd", "spe")


def types(dex: Dex, mon: Own | OpposingPokemon, player: Mine | Theirs | None = None) -> tuple[str, ...]:
    """Current types of a Pokémon.

    Give `player` if it is active, because its volatiles may change its types.
    """
    tera = mon.get("tera")
    if mon.get("terastallized") and tera and tera != "stellar":
        return (str(tera),)
    name = mon["species"]
    added_types: tuple[str, ...] = ()
    if player is not None and player["volatiles"]:
        held = player["volatiles"]
        for id in ("transform", "formechange"):
            if len(held.get(id, ())) > 1:
                name = held[id][1]
        if len(held.get("typeadd", ())) > 1:
            added_types = (str(held["typeadd"][1]),)
        if len(held.get("typechange", ())) > 1:
            return (*(part for part in str(held["typechange"][1]).split("/") if part), *added_types)
    species = dex.species.get(name)
    return (*(species["types"] if species else ()), *added_types)


def active(player: Mine) -> Own | None:
    """The own Pokémon on the field."""
    return player["team"][player["active"]] if player["active"] >= 0 else None


def opponent(view: SideView) -> OpposingPokemon | None:
    """The opponent's Pokémon on the field."""
    player = view["foe"]
    return player["team"][player["active"]] if player["active"] >= 0 else None


def move_type(dex: Dex, id: str, mon: Own | OpposingPokemon | None = None) -> str:
    """Type of a move.

    Hidden Power's is by its name, Tera Blast's that of a terastallized Pokémon.
    """
    if id.startswith("hiddenpower") and len(id) > 11:
        return id[11:].rstrip("0123456789")
    if id == "terablast" and mon is not None and mon.get("terastallized") and mon.get("tera"):
        return str(mon["tera"])
    move = dex.moves.get(id)
    return move["type"] if move else ""


def known(dex: Dex, id: str) -> str:
    """The id under which the tables hold a move: Hidden Power without its type and power."""
    return "hiddenpower" if id.startswith("hiddenpower") and id not in dex.moves else id
