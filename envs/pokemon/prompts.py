"""What a side reads: everything it may know, and its numbered actions."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from palaver.envs.pokemon import events
from palaver.envs.pokemon.facts import STATS, active, known, move_type, opponent, types
from palaver.envs.pokemon.showdown.dex import Dex, load
from palaver.envs.pokemon.showdown.view import Mine, Own, Seen, Side, Theirs, View

ASKED = {
    "move": "Choose a move or a switch.",
    "switch": "Choose who comes in.",
    "revive": "Choose who is revived.",
    "team": "Team preview: choose who leads.",
}
ANSWER = "Answer with one action, as listed or by its number."


Memo = dict[tuple[str, int], tuple[Any, str]]  # (owner, place) -> a Pokémon of a bench as it was, its line


def observation(
    dex: Dex,
    format: str,
    me: Side,
    turn: int,
    view: View,
    lines: Sequence[str],
    refused: str = "",
    memo: Memo | None = None,
) -> str:
    """The whole text for a side that may act. Most of a bench stays as it is: `memo` holds its lines between calls."""
    memo = {} if memo is None else memo
    happened = events.told(lines, me)
    mine, foe = view["me"], view["foe"]
    parts = [
        f"{format}. You are {me}. Turn {turn}.",
        f"Weather: {_since(view['weather'])}. Field: {_fields(view['field'])}.",
        f"Your side: {_conditions(mine['conditions'])}. Their side: {_conditions(foe['conditions'])}.",
        "Your team:",
        *_team("own", mine, memo, lambda n: _own(dex, mine, n, mine["team"][n])),
        "Their team:",
        *_team("their", foe, memo, lambda n: _seen(dex, foe, n, foe["team"][n])),
    ]
    hidden = foe["size"] - len(foe["team"])
    if hidden > 0:
        parts.append(f"- {hidden} not seen yet")
    if happened:
        parts += ["What happened:", happened]
    if refused:
        parts.append(f"Your last choice was refused: {refused}")
    if view["trapped"] == "maybe":
        parts.append("You may be trapped: a switch may be refused, and you choose again.")
    parts.append(f"{ASKED[view['request']]} {ANSWER}")
    parts += actions(dex, view)
    return "\n".join(parts)


def waiting(me: Side, turn: int, lines: Sequence[str]) -> str:
    """The text for a side that must wait; `lines` are what happened since it last heard."""
    happened = events.told(lines, me)
    return f"You are {me}. Turn {turn}. Your opponent chooses, you wait." + (f"\n{happened}" if happened else "")


def ended(me: Side, turn: int, winner: str, lines: Sequence[str], limit: bool = False) -> str:
    """The last text."""
    how = "It ended at the turn limit." if limit else "It is a tie." if not winner else ""
    how = how or ("You won." if winner == me else "You lost.")
    happened = events.told(lines, me)
    return f"You are {me}. The battle is over after turn {turn}. {how}" + (f"\n{happened}" if happened else "")


def actions(dex: Dex, view: View) -> list[str]:
    """The legal actions, numbered from 1 in their alphabetical order, moves with what is known of them."""
    me, foe = active(view["me"]), opponent(view)
    against = types(dex, foe, view["foe"]) if foe else ()
    left = {id: f"{pp}/{most}" for id, pp, most in me["moves"]} if me else {}
    listed = []
    for n, (label, _) in enumerate(view["legal"], 1):
        verb, name, *_ = label.split(" ")
        if verb == "move":
            label += _about(dex.gen, name, move_type(dex, name, me), against, left.get(name, ""))
        listed.append(f"{n}. {label}")
    return listed


@functools.lru_cache(maxsize=16_384)
def _about(gen: int, id: str, kind: str, against: tuple[str, ...], left: str) -> str:
    dex = load(gen)
    move = dex.moves.get(known(dex, id))
    if move is None:
        return ""
    accuracy = "always hits" if move["accuracy"] is None else f"accuracy {move['accuracy']}"
    if move["category"] == "status":
        power = "status"
    else:
        size = "varying" if move.get("varies") or not move["power"] else str(move["power"])
        power = f"{move['category']}, power {size}, x{dex.effectiveness(kind, against):g} on them"
    return f" ({kind}, {power}, {accuracy}{f', PP {left}' if left else ''})"


def _since(weather: tuple[str, int] | None) -> str:
    return f"{weather[0]} since turn {weather[1]}" if weather else "none"


def _fields(field: Mapping[str, int]) -> str:
    return ", ".join(f"{id} since turn {turn}" for id, turn in sorted(field.items())) or "none"


def _conditions(held: Mapping[str, Sequence[int]]) -> str:
    shown = (f"{id}{f' x{n}' if n > 1 else ''} (turn {turn})" for id, (n, turn) in sorted(held.items()))
    return ", ".join(shown) or "none"


def _volatiles(held: Mapping[str, Sequence[Any]]) -> str:
    return ", ".join(f"{id}{f' {about[1]}' if len(about) > 1 else ''}" for id, about in sorted(held.items()))


def _field(seat: Mine | Theirs) -> str:
    """What only the active one has."""
    text = "; ACTIVE"
    if seat["boosts"]:
        text += "; boosts " + " ".join(f"{stat} {stage:+d}" for stat, stage in sorted(seat["boosts"].items()))
    if seat["volatiles"]:
        text += f"; {_volatiles(seat['volatiles'])}"
    return text


def _level(mon: Own | Seen) -> str:
    return ("" if mon["level"] == 100 else f" L{mon['level']}") + (f" {mon['gender']}" if mon["gender"] else "")


def _status(mon: Own | Seen) -> str:
    slept = mon.get("slept")
    return f" {mon['status']}{f' ({slept} turns)' if slept else ''}" if mon["status"] else ""


def _team(owner: str, seat: Mine | Theirs, memo: Memo, write: Callable[[int], str]) -> Iterator[str]:
    """A line for each; what `write` says of one on a bench depends on nothing but itself."""
    for n, mon in enumerate(seat["team"]):
        if n == seat["active"]:
            yield write(n)
            continue
        held = memo.get((owner, n))
        if held is None or held[0] != mon:
            held = memo[owner, n] = (mon, write(n))
        yield held[1]


def _own(dex: Dex, seat: Mine, n: int, mon: Own) -> str:
    on_field = n == seat["active"]
    as_seen = "" if mon["species"] == mon["name"] else f" [{mon['species']}]"
    head = f"- {mon['name']}{as_seen} {'/'.join(types(dex, mon, seat if on_field else None))}{_level(mon)}"
    if not mon["hp"]:
        return f"{head}; fainted"
    moves = ", ".join([f"{id} {pp}/{most}" for id, pp, most in mon["moves"]])
    stats = " ".join([f"{stat} {value}" for stat, value in zip(STATS, mon["stats"], strict=True)])
    text = f"{head}; {mon['hp']}/{mon['max']}{_status(mon)}{_field(seat) if on_field else ''}; {moves}; {stats}"
    if "item" in mon:
        text += f"; item {mon['item'] or 'none'}"
    if "ability" in mon:
        text += f"; ability {mon['ability']}"
    if "tera" in mon:
        text += f"; tera {mon['tera']}{' (now)' if mon.get('terastallized') else ''}"
    return text


def _seen(dex: Dex, seat: Theirs, n: int, mon: Seen) -> str:
    on_field = n == seat["active"]
    head = f"- {mon['species']} {'/'.join(types(dex, mon, seat if on_field else None))}{_level(mon)}"
    if not mon["hp"]:
        return f"{head}; fainted"
    shown = f"{mon['hp']}%" if mon["max"] == 100 else f"{mon['hp']}/{mon['max']}"
    text = f"{head}; {shown}{_status(mon)}{_field(seat) if on_field else ''}"
    if not mon["seen"]:
        text += "; not seen yet"
    if mon["moves"]:
        text += "; used " + ", ".join(f"{id} x{uses}" for id, uses in sorted(mon["moves"]))
    if mon["item"]:
        text += f"; item {mon['item']}"
    elif mon["item"] is not None:
        text += f"; no item, {mon['gone']} is gone" if mon["gone"] else "; no item"
    if mon["ability"]:
        text += f"; ability {mon['ability']}"
    if mon["tera"]:
        text += f"; tera {mon['tera']}{' (now)' if mon['terastallized'] else ''}"
    return text
