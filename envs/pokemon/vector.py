"""A view as words and numbers of fixed count, for small networks.

    words, numbers, mask = vector.parse(observation)            # 135 words, NUMBERS numbers, 14 of 0 and 1
    action = vector.slots(env.view("p1"))[int(argmax)]          # the action's text; "" for a slot that is not legal

Words: format, request, weather; then 12 Pokémon with 11 words each (species, two types, item, ability, status, tera
type, four moves): the own active one, the other own ones, the opponent's active one, the others; the benches and the
moves of each are in alphabetical order. Before a Pokémon is sent out, the last of six takes the first place. `none` is
for what is not there, `unknown` for what was not seen.

Numbers: see `names()`, which has one name for each. Slots of actions: the active Pokémon's four moves in alphabetical
order, the same with a gimmick, the own team in alphabetical order (to switch, lead or revive). Struggle and the like
take the first slot. Nothing is lost of side conditions, fields and boosts; volatiles that are not listed are counted.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from palaver.core import ConfigError
from palaver.envs.pokemon.showdown.dex import STATS, Dex, active, known, move_type, opponent, types
from palaver.envs.pokemon.showdown.view import Mine, OpposingPokemon, Own, SideView, Theirs

CONDITIONS = (
    "auroraveil",
    "craftyshield",
    "doomdesire",
    "futuresight",
    "gmaxcannonade",
    "gmaxsteelsurge",
    "gmaxvinelash",
    "gmaxvolcalith",
    "gmaxwildfire",
    "lightscreen",
    "luckychant",
    "matblock",
    "mist",
    "quickguard",
    "reflect",
    "safeguard",
    "spikes",
    "stealthrock",
    "stickyweb",
    "tailwind",
    "toxicspikes",
    "wideguard",
    "wish",
)
FIELDS = (
    "electricterrain",
    "fairylock",
    "grassyterrain",
    "gravity",
    "iondeluge",
    "magicroom",
    "mistyterrain",
    "mudsport",
    "psychicterrain",
    "trickroom",
    "watersport",
    "wonderroom",
)
VOLATILES = (
    "attract",
    "bide",
    "confusion",
    "curse",
    "destinybond",
    "disable",
    "encore",
    "endure",
    "flashfire",
    "focusenergy",
    "followme",
    "foresight",
    "healblock",
    "imprison",
    "ingrain",
    "leechseed",
    "lightscreen",
    "lockon",
    "magnetrise",
    "mimic",
    "mist",
    "mustrecharge",
    "nightmare",
    "partiallytrapped",
    "perish",
    "preparing",
    "protect",
    "reflect",
    "saltcure",
    "slowstart",
    "stockpile",
    "substitute",
    "taunt",
    "throatchop",
    "torment",
    "transform",
    "trapped",
    "typechange",
    "yawn",
)
BOOSTS = (*STATS, "accuracy", "evasion")
MOVES, TEAM = 4, 6
ACTIONS = 2 * MOVES + TEAM
WORDS = 3 + 2 * TEAM * (7 + MOVES)
_PAD = ("none",) * (7 + MOVES)
_BLANK = [0.0] * (12 + MOVES)
_AT_FIELD = {id: n for n, id in enumerate(FIELDS, start=2)}
_AT_CONDITION = {id: n for n, id in enumerate(CONDITIONS)}
_AT_VOLATILE = {id: n for n, id in enumerate(VOLATILES, start=len(CONDITIONS))}
_OTHERS = len(CONDITIONS) + len(VOLATILES)
_AT_BOOST = {stat: n for n, stat in enumerate(BOOSTS, start=_OTHERS + 1)}
_AT_SEATS = 3 + len(FIELDS)
_SEAT = _OTHERS + 1 + len(BOOSTS) + TEAM * len(_BLANK)  # numbers of a side
_AT_ATTACKS = _AT_SEATS + 2 * _SEAT


def observation(dex: Dex, format: str, turn: int, view: SideView) -> str:
    """Words, numbers and mask as one text; `parse` reads it."""
    mask = " ".join("1" if label else "0" for label in slots(view))
    return (
        f"{' '.join(side_words(dex, format, view))} | {' '.join(f'{n:g}' for n in numbers(dex, turn, view))} | {mask}"
    )


def parse(text: str) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """(words, numbers as float32, mask as bool) of an observation.

    Raises:
        ConfigError: it is no observation of this kind.
    """
    parts = text.split(" | ")
    if len(parts) != 3:
        raise ConfigError("this is no observation of words and numbers; make the environment with observation='vector'")
    words, values, mask = (part.split(" ") for part in parts)
    return tuple(words), np.array(values, np.float32), np.array([bit == "1" for bit in mask])


def slots(view: SideView) -> tuple[str, ...]:
    """The action of each slot; empty where it is not legal."""
    labels = [""] * ACTIONS
    me = active(view["me"])
    move_slots = {id: n for n, id in enumerate(sorted(move[0] for move in me["moves"])[:MOVES])} if me else {}
    team = {name: 2 * MOVES + n for n, name in enumerate(sorted(mon["name"] for mon in view["me"]["team"]))}
    for label, _ in view["legal"]:
        verb, name, *gimmick = label.split(" ")
        at = move_slots.get(name, 0) + MOVES * bool(gimmick) if verb == "move" else team[name]
        labels[at] = labels[at] or label
    return tuple(labels)


def side_words(dex: Dex, format: str, view: SideView) -> list[str]:
    """`WORDS` words."""
    tokens = [format, view["request"], view["weather"][0] if view["weather"] else "none"]
    for player in (view["me"], view["foe"]):
        for mon in _ordered(player):
            on_field = player["active"] >= 0 and player["team"][player["active"]] is mon
            tokens += _PAD if mon is None else _described(dex, mon, player if on_field else None)
    return tokens


def numbers(dex: Dex, turn: int, view: SideView) -> list[float]:
    """As many numbers as `names()` names."""
    values = _field(turn, view)
    for player in (view["me"], view["foe"]):
        values += _player_features(player)
        for mon in _ordered(player):
            values += _BLANK if mon is None else _measured(dex, mon)
    return values + _attacks(dex, view, {})


class FeatureHistory:
    """Words and numbers of one side through one battle, computed incrementally.

    Only what changed since the last view is described again, in a third of the time. Views must not be changed after
    they were given.

    Args:
        dex: of the format's generation.
        format: of the battle.
    """

    def __init__(self, dex: Dex, format: str) -> None:
        self._dex = dex
        self._known: tuple[dict[str, _Known], dict[str, _Known]] = ({}, {})
        self._attack: dict[tuple[str, str, tuple[str, ...]], tuple[float, ...]] = {}
        self._words = [format, "", "", *_PAD * (2 * TEAM)]
        self._numbers = np.zeros(_AT_ATTACKS + 4 * MOVES, np.float32)
        self._held: list[Own | OpposingPokemon | None] = [None] * (2 * TEAM)  # who was described in each place
        self._changed = [False] * (2 * TEAM)  # by what it was on the field, so that it is not described as on the bench
        self._last_states: list[tuple[object, ...]] = [(), ()]  # described state of each side besides its Pokémon
        self._order: list[tuple[tuple[object, ...], list[int]]] = [((), []), ((), [])]

    def look(self, turn: int, view: SideView) -> tuple[tuple[str, ...], np.ndarray]:
        """Compute `side_words` and `numbers` of this view; the numbers as float32."""
        words, numbers = self._words, self._numbers
        words[1:3] = view["request"], view["weather"][0] if view["weather"] else "none"
        numbers[:_AT_SEATS] = _field(turn, view)
        players: tuple[Mine | Theirs, Mine | Theirs] = (view["me"], view["foe"])
        for n, player in enumerate(players):
            at = _AT_SEATS + n * _SEAT
            player_state = player["conditions"], player["volatiles"], player["boosts"]
            if player_state != self._last_states[n]:
                self._last_states[n] = player_state
                numbers[at : at + _SEAT - TEAM * len(_BLANK)] = _player_features(player)
            team: Sequence[Own | OpposingPokemon] = player["team"]
            for index, at_team in enumerate(self._places(n, player), start=n * TEAM):
                mon = team[at_team] if at_team >= 0 else None
                alters = bool(mon is not None and player["volatiles"] and at_team == player["active"])
                if mon != self._held[index] or alters or self._changed[index]:
                    self._describe(index, mon, player if alters else None)
        numbers[_AT_ATTACKS:] = _attacks(self._dex, view, self._attack)
        return tuple(words), numbers.copy()

    def _places(self, n: int, player: Mine | Theirs) -> list[int]:
        """Team indices in the six places, -1 for an empty one, in the order of `_ordered`."""
        team: Sequence[Own | OpposingPokemon] = player["team"]
        key = (player["active"], *[mon["name"] for mon in team])
        if self._order[n][0] != key:
            at = {id(mon): place for place, mon in enumerate(team)}
            self._order[n] = key, [-1 if mon is None else at[id(mon)] for mon in _ordered(player)]
        return self._order[n][1]

    def _describe(self, index: int, mon: Own | OpposingPokemon | None, player: Mine | Theirs | None) -> None:
        """Write one Pokémon into its place; `player` where its being on the field changes it."""
        own_start, player_start = 3 + index * len(_PAD), _AT_SEATS + (index // TEAM + 1) * (_SEAT - TEAM * len(_BLANK))
        player_start += index * len(_BLANK)
        self._held[index], self._changed[index] = mon, player is not None
        if mon is None:
            self._words[own_start : own_start + len(_PAD)], self._numbers[player_start : player_start + len(_BLANK)] = (
                _PAD,
                _BLANK,
            )
            return
        before = self._known[index // TEAM]
        previous = before.get(mon["name"])
        if previous is None or previous[0] != mon:
            previous = before[mon["name"]] = (mon, _described(self._dex, mon), _measured(self._dex, mon))
        self._words[own_start : own_start + len(_PAD)] = _described(self._dex, mon, player) if player else previous[1]
        self._numbers[player_start : player_start + len(_BLANK)] = previous[2]


_Known = tuple[Own | OpposingPokemon, list[str], list[float]]  # a Pokémon, its words on the bench, its numbers


@functools.cache
def names() -> tuple[str, ...]:
    """Name of each number."""
    labels = ["turn/100", "weather age/10", *FIELDS, "opponents left/6"]
    for owner in ("own", "their"):
        labels += [f"{owner} side: {id}" for id in CONDITIONS]
        labels += [f"{owner} {id}" for id in (*VOLATILES, "other volatiles/5", *BOOSTS)]
        for slot in ("active", *(f"bench {n}" for n in range(1, TEAM))):
            about = (
                "hp",
                "level/100",
                "fainted",
                "seen",
                "slept/5",
                "terastallized",
                *(f"base {s}/255" for s in _BASE),
            )
            labels += [f"{owner} {slot}: {what}" for what in (*about, *(f"move {n + 1} left" for n in range(MOVES)))]
    for n in range(MOVES):
        labels += [f"move {n + 1}: {what}" for what in ("power/200", "accuracy", "priority/5", "effectiveness/4")]
    return tuple(labels)


_BASE = ("hp", *STATS)


def _ordered(player: Mine | Theirs) -> Iterator[Own | OpposingPokemon | None]:
    """Six: the active one, the others by name; before one is sent out, the sixth comes first."""
    team: Sequence[Own | OpposingPokemon] = player["team"]
    out = [player["active"]] if player["active"] >= 0 else []
    bench = sorted((n for n in range(len(team)) if n not in out), key=lambda n: (team[n]["name"], n))
    out = out or bench[TEAM - 1 : TEAM]
    yield team[out[0]] if out else None
    places = bench[: TEAM - 1]
    yield from (team[n] for n in places)
    yield from (None for _ in range(TEAM - 1 - len(places)))


def _field(turn: int, view: SideView) -> list[float]:
    values = [0.0] * (3 + len(FIELDS))
    values[0] = turn / 100
    if view["weather"]:
        values[1] = (turn - view["weather"][1]) / 10
    for id in view["field"]:
        if id in _AT_FIELD:
            values[_AT_FIELD[id]] = 1.0
    values[-1] = (view["foe"]["size"] - sum(mon["hp"] == 0 for mon in view["foe"]["team"])) / 6
    return values


def _player_features(player: Mine | Theirs) -> list[float]:
    values = [0.0] * (_OTHERS + 1 + len(BOOSTS))
    for id, held in player["conditions"].items():
        if id in _AT_CONDITION:
            values[_AT_CONDITION[id]] = held[0] / 3
    for id in player["volatiles"]:
        if id in _AT_VOLATILE:
            values[_AT_VOLATILE[id]] = 1.0
    values[_OTHERS] = len(player["volatiles"].keys() - _AT_VOLATILE.keys()) / 5
    for stat, stage in player["boosts"].items():
        if stat in _AT_BOOST:
            values[_AT_BOOST[stat]] = stage / 6
    return values


def _described(dex: Dex, mon: Own | OpposingPokemon, player: Mine | Theirs | None = None) -> list[str]:
    """Words of a Pokémon; `player` where it is on the field."""
    kinds = (*types(dex, mon, player), "none", "none")[:2]
    moves = sorted(move[0] for move in mon["moves"])[:MOVES]
    pad = "none" if "stats" in mon else "unknown"
    held: Mapping[str, object] = mon
    item_texts = [_value_text(held.get(key, "")) for key in ("item", "ability")]
    status = "fainted" if not mon["hp"] else mon["status"] or "none"
    return [
        mon["species"],
        *kinds,
        *item_texts,
        status,
        _value_text(held.get("tera", "")),
        *moves,
        *[pad] * (MOVES - len(moves)),
    ]


def _value_text(value: object) -> str:
    return "unknown" if value is None else str(value) or "none"


def _measured(dex: Dex, mon: Own | OpposingPokemon) -> list[float]:
    species = dex.species.get(mon["species"])
    values: list[float] = [
        mon["hp"] / mon["max"],
        mon["level"] / 100,
        float(not mon["hp"]),
        float(bool(mon.get("seen", True))),
        mon.get("slept", 0) / 5,
        float(bool(mon.get("terastallized"))),
        *([value / 255 for value in species["stats"]] if species else (0.0,) * 6),
    ]
    left = [_left(dex, move) for move in sorted(mon["moves"])[:MOVES]]
    return values + left + [0.0] * (MOVES - len(left))


def _left(dex: Dex, move: Sequence[Any]) -> float:
    """The part of a move's PP that is left; of the opponent's moves by how often they were used."""
    if len(move) > 2:
        return float(move[1] / max(1, move[2]))
    move_data = dex.moves.get(known(dex, move[0]))
    return float(max(0.0, 1 - move[1] / max(1, move_data["pp"]))) if move_data else 1.0


def _attacks(dex: Dex, view: SideView, done: dict[tuple[str, str, tuple[str, ...]], tuple[float, ...]]) -> list[float]:
    """Of the active Pokémon's moves; `done` are those that were computed before."""
    me, foe = active(view["me"]), opponent(view)
    held = [] if me is None else sorted(move[0] for move in me["moves"])[:MOVES]
    against = types(dex, foe, view["foe"]) if foe else ()
    values: list[float] = []
    for id in held:
        key = (id, move_type(dex, id, me), against)
        if key not in done:
            done[key] = _attack(dex, *key)
        values += done[key]
    return values + [0.0] * (4 * (MOVES - len(held)))


def _attack(dex: Dex, id: str, kind: str, against: tuple[str, ...]) -> tuple[float, ...]:
    move = dex.moves.get(known(dex, id))
    if move is None:
        return (0.0,) * 4
    effect = 0.0 if move["category"] == "status" else dex.effectiveness(kind, against)
    accuracy = 1.0 if move["accuracy"] is None else move["accuracy"] / 100
    return move["power"] / 200, accuracy, move.get("priority", 0) / 5, effect / 4
