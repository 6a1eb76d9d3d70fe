"""A view as words and numbers of fixed count, for small networks.

    words, numbers, mask = vector.parse(observation)            # 135 words, NUMBERS numbers, 14 of 0 and 1
    action = vector.slots(env.view("p1"))[int(argmax)]          # the text to say; "" for a slot that is not legal

Words: format, request, weather; then 12 Pokémon with 11 words each (species, two types, item, ability, status, tera
type, four moves): the own active one, the other own ones, the opponent's active one, the others; the benches and the
moves of each are in alphabetical order. `none` is for what is not there, `unknown` for what was not seen.

Numbers: see `names()`, which has one name for each. Slots of actions: the active Pokémon's four moves in alphabetical
order, the same with a gimmick, the own team in alphabetical order (to switch, lead or revive). Struggle and the like
take the first slot. Nothing is lost of side conditions, fields and boosts; volatiles that are not listed are counted.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from palaver.core import ConfigError
from palaver.envs.pokemon.facts import STATS, active, known, move_type, opponent, types
from palaver.envs.pokemon.showdown.dex import Dex
from palaver.envs.pokemon.showdown.view import Mine, Own, Seen, Theirs, View

CONDITIONS = (
    "auroraveil", "craftyshield", "doomdesire", "futuresight", "gmaxcannonade", "gmaxsteelsurge", "gmaxvinelash",
    "gmaxvolcalith", "gmaxwildfire", "lightscreen", "luckychant", "matblock", "mist", "quickguard", "reflect",
    "safeguard", "spikes", "stealthrock", "stickyweb", "tailwind", "toxicspikes", "wideguard", "wish",
)  # fmt: skip
FIELDS = (
    "electricterrain", "fairylock", "grassyterrain", "gravity", "iondeluge", "magicroom", "mistyterrain", "mudsport",
    "psychicterrain", "trickroom", "watersport", "wonderroom",
)  # fmt: skip
VOLATILES = (
    "attract", "bide", "confusion", "curse", "destinybond", "disable", "encore", "endure", "flashfire", "focusenergy",
    "followme", "foresight", "healblock", "imprison", "ingrain", "leechseed", "lightscreen", "lockon", "magnetrise",
    "mimic", "mist", "mustrecharge", "nightmare", "partiallytrapped", "perish", "preparing", "protect", "reflect",
    "saltcure", "slowstart", "stockpile", "substitute", "taunt", "throatchop", "torment", "transform", "trapped",
    "typechange", "yawn",
)  # fmt: skip
BOOSTS = (*STATS, "accuracy", "evasion")
MOVES, TEAM = 4, 6
ACTIONS = 2 * MOVES + TEAM
WORDS = 3 + 2 * TEAM * (7 + MOVES)
_PAD = ("none",) * (7 + MOVES)


def observation(dex: Dex, format: str, turn: int, view: View) -> str:
    """Words, numbers and mask as one text; `parse` reads it."""
    mask = " ".join("1" if label else "0" for label in slots(view))
    return f"{' '.join(words(dex, format, view))} | {' '.join(f'{n:g}' for n in numbers(dex, turn, view))} | {mask}"


def parse(text: str) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """(words, numbers as float32, mask as bool) of an observation.

    Raises:
        ConfigError: it is no observation of this kind.
    """
    parts = text.split(" | ")
    if len(parts) != 3:
        raise ConfigError("this is no observation of words and numbers; make the environment with observation='vector'")
    read = tuple(parts[0].split(" "))
    return read, np.array(parts[1].split(" "), np.float32), np.array([bit == "1" for bit in parts[2].split(" ")])


def slots(view: View) -> tuple[str, ...]:
    """The action of each slot; empty where it is not legal."""
    made = [""] * ACTIONS
    me = active(view["me"])
    own = {id: n for n, id in enumerate(sorted(move[0] for move in me["moves"])[:MOVES])} if me else {}
    team = {name: 2 * MOVES + n for n, name in enumerate(sorted(mon["name"] for mon in view["me"]["team"]))}
    for label, _ in view["legal"]:
        verb, name, *gimmick = label.split(" ")
        at = own.get(name, 0) + MOVES * bool(gimmick) if verb == "move" else team[name]
        made[at] = made[at] or label
    return tuple(made)


def words(dex: Dex, format: str, view: View) -> list[str]:
    """`WORDS` words."""
    made = [format, view["request"], view["weather"][0] if view["weather"] else "none"]
    for seat in (view["me"], view["foe"]):
        for mon in _ordered(seat):
            made += _PAD if mon is None else _described(dex, mon, seat)
    return made


def numbers(dex: Dex, turn: int, view: View) -> list[float]:
    """As many numbers as `names()` names."""
    made = [turn / 100, (turn - view["weather"][1]) / 10 if view["weather"] else 0.0]
    made += [float(id in view["field"]) for id in FIELDS]
    made.append((view["foe"]["size"] - sum(mon["hp"] == 0 for mon in view["foe"]["team"])) / 6)
    for seat in (view["me"], view["foe"]):
        made += [seat["conditions"][id][0] / 3 if id in seat["conditions"] else 0.0 for id in CONDITIONS]
        made += [float(id in seat["volatiles"]) for id in VOLATILES]
        made.append(len(seat["volatiles"].keys() - set(VOLATILES)) / 5)
        made += [seat["boosts"].get(stat, 0) / 6 for stat in BOOSTS]
        for mon in _ordered(seat):
            made += [0.0] * (12 + MOVES) if mon is None else _measured(dex, mon)
    me, foe = active(view["me"]), opponent(view)
    held = [] if me is None else sorted(move[0] for move in me["moves"])[:MOVES]
    against = types(dex, foe, view["foe"]) if foe else ()
    for n in range(MOVES):
        made += _attack(dex, held[n], me, against) if n < len(held) else (0.0,) * 4
    return made


@functools.cache
def names() -> tuple[str, ...]:
    """What each number is."""
    made = ["turn/100", "weather age/10", *FIELDS, "opponents left/6"]
    for owner in ("own", "their"):
        made += [f"{owner} {id}" for id in (*CONDITIONS, *VOLATILES, "other volatiles/5", *BOOSTS)]
        for place in ("active", *(f"bench {n}" for n in range(1, TEAM))):
            about = (
                "hp",
                "level/100",
                "fainted",
                "seen",
                "slept/5",
                "terastallized",
                *(f"base {s}/255" for s in _BASE),
            )
            made += [f"{owner} {place}: {what}" for what in (*about, *(f"move {n + 1} left" for n in range(MOVES)))]
    for n in range(MOVES):
        made += [f"move {n + 1}: {what}" for what in ("power/200", "accuracy", "priority/5", "effectiveness/4")]
    return tuple(made)


_BASE = ("hp", *STATS)


def _ordered(seat: Mine | Theirs) -> Iterator[Own | Seen | None]:
    """Six: the active one, then the others in alphabetical order."""
    team: Sequence[Own | Seen] = seat["team"]
    out = [seat["active"]] if seat["active"] >= 0 else []
    bench = sorted((n for n in range(len(team)) if n not in out), key=lambda n: (team[n]["name"], n))
    yield team[out[0]] if out else None
    places = bench[: TEAM - 1]
    yield from (team[n] for n in places)
    yield from (None for _ in range(TEAM - 1 - len(places)))


def _described(dex: Dex, mon: Own | Seen, seat: Mine | Theirs) -> list[str]:
    on_field = seat["active"] >= 0 and seat["team"][seat["active"]] is mon
    kinds = (*types(dex, mon, seat if on_field else None), "none", "none")[:2]
    moves = sorted(move[0] for move in mon["moves"])[:MOVES]
    pad = "none" if "stats" in mon else "unknown"
    held: Mapping[str, object] = mon
    told = [_told(held.get(key, "")) for key in ("item", "ability")]
    status = "fainted" if not mon["hp"] else mon["status"] or "none"
    return [mon["species"], *kinds, *told, status, _told(held.get("tera", "")), *moves, *[pad] * (MOVES - len(moves))]


def _told(value: object) -> str:
    return "unknown" if value is None else str(value) or "none"


def _measured(dex: Dex, mon: Own | Seen) -> list[float]:
    found = dex.species.get(mon["species"])
    made: list[float] = [
        mon["hp"] / mon["max"], mon["level"] / 100, float(not mon["hp"]), float(bool(mon.get("seen", True))),
        mon.get("slept", 0) / 5, float(bool(mon.get("terastallized"))),
        *(value / 255 for value in (found["stats"] if found else (0,) * 6)),
    ]  # fmt: skip
    left = [_left(dex, move) for move in sorted(mon["moves"])[:MOVES]]
    return made + left + [0.0] * (MOVES - len(left))


def _left(dex: Dex, move: Sequence[object]) -> float:
    """The part of a move's PP that is left; of the opponent's moves by how often they were used."""
    count = int(str(move[1]))
    if len(move) > 2:
        return count / max(1, int(str(move[2])))
    found = dex.moves.get(known(dex, str(move[0])))
    return max(0.0, 1 - count / max(1, found["pp"])) if found else 1.0


def _attack(dex: Dex, id: str, mon: Own | None, against: tuple[str, ...]) -> tuple[float, ...]:
    move = dex.moves.get(known(dex, id))
    if move is None:
        return (0.0,) * 4
    effect = 0.0 if move["category"] == "status" else dex.effectiveness(move_type(dex, id, mon), against)
    accuracy = 1.0 if move["accuracy"] is None else move["accuracy"] / 100
    return move["power"] / 200, accuracy, move.get("priority", 0) / 5, effect / 4
