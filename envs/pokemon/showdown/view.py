"""View of a side, as `view.js` builds it.

Ids are the simulator's: lower case letters and digits only. A move is `[id, pp, max pp]` for the owner and `[id, times
seen used]` for the opponent. Conditions are `id -> [layers, turn of the last]`, volatiles `id -> [turn, detail]` (the
detail is left out where there is none: a move for `disable`, `encore`, `preparing`, a count for `perish` and
`stockpile`, types such as `water/ground` for `typechange`, a species for `transform` and `formechange`), boosts `stat
-> stage` without zeros.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

Side = Literal["p1", "p2"]
SIDES: tuple[Side, Side] = ("p1", "p2")
State = Literal["move", "switch", "revive", "team", "wait", "end"]


class Own(TypedDict):
    """A Pokémon of the side itself.

    Keys:
        name: what its owner calls it in choices: the species of its set, for the second of one species with a 2.
        species: what it is now, transformed or in another forme.
        hp, max: points.
        status: par, slp, frz, brn, psn, tox or empty.
        stats: attack, defence, special attack, special defence, speed, without boosts.
        slot: its place in the simulator's order, from 1.
        item, ability: from generations 2 and 3 on; empty for none.
        tera, terastallized: in generation 9.
        slept: turns it was seen asleep since it fell asleep.
    """

    name: str
    species: str
    level: int
    gender: str
    hp: int
    max: int
    status: str
    moves: list[tuple[str, int, int]]
    stats: list[int]
    slot: int
    item: NotRequired[str]
    ability: NotRequired[str]
    tera: NotRequired[str]
    terastallized: NotRequired[bool]
    slept: NotRequired[int]


class OpposingPokemon(TypedDict):
    """A Pokémon of the opponent, as far as it showed itself.

    Keys:
        name: in the protocol.
        hp, max: parts of 100; of 48, or points, in formats without the rule that shows percentages.
        item, ability, tera: None while unknown; an item of "" is gone, `gone` holds its id.
        seen: False for one that is known from team preview alone.
    """

    name: str
    species: str
    level: int
    gender: str
    hp: int
    max: int
    status: str
    moves: list[tuple[str, int]]
    item: str | None
    gone: str
    ability: str | None
    tera: str | None
    terastallized: bool
    seen: bool
    slept: NotRequired[int]


class SideState(TypedDict):
    """Fields of both sides.

    `active` indexes `team`, -1 before one is sent out, and `entered` is its turn.
    """

    active: int
    entered: int
    boosts: dict[str, int]
    volatiles: dict[str, list[Any]]
    conditions: dict[str, list[int]]


class Mine(SideState):
    """The side itself; `team` in the order in which it was given."""

    team: list[Own]


class Theirs(SideState):
    """The opponent; `team` in the order in which they were seen, `size` how many there are."""

    team: list[OpposingPokemon]
    size: int


class SideView(TypedDict):
    """Knowledge of one side.

    Keys:
        request: the kind of choice; `wait` where only the other side chooses, `end` after the battle.
        legal: label and the simulator's choice of everything it may do, by label: `lead X`, `move X`, `move X tera`
            (or mega, megax, megay, ultra, zmove, dynamax), `revive X`, `switch X`.
        trapped: `maybe` where switching is offered and may be refused.
        weather: its id and the turn it began.
        field: id -> the turn it began; rooms, terrains and the like.
        lines: what happened since the last view, in the simulator's protocol, as this side sees it.
    """

    request: State
    legal: list[tuple[str, str]]
    trapped: Literal["", "yes", "maybe"]
    me: Mine
    foe: Theirs
    weather: tuple[str, int] | None
    field: dict[str, int]
    lines: list[str]
