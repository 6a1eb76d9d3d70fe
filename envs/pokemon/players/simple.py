"""The first rules: `random@1`, `max_power@1`, `typed@1`, `simple@1`."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from palaver.envs.pokemon.players.damage import accuracy, hits, multiplier, stat
from palaver.envs.pokemon.showdown.dex import STATS, Dex, active, known, move_type, opponent, types
from palaver.envs.pokemon.showdown.view import OpposingPokemon, Own, SideView

HAZARDS = frozenset({"spikes", "stealthrock", "stickyweb", "toxicspikes"})
CLEARING = frozenset({"defog", "rapidspin", "mortalspin", "tidyup"})


def random_1(view: SideView, _dex: Dex, draw: random.Random) -> str:
    """Any legal action, all equally likely."""
    return draw.choice(view["legal"])[0]


def max_power_1(view: SideView, dex: Dex, draw: random.Random) -> str:
    """The move with the largest base power, as the tables print it.

    It is any action where no move is possible. It never switches of its own accord; ties, and moves without any power,
    are drawn.
    """
    moves = attacks(view)
    return best(moves, lambda label: power(dex, label), draw) if moves else random_1(view, dex, draw)


def typed_1(view: SideView, dex: Dex, draw: random.Random) -> str:
    """The move with the largest power x accuracy x 1.5 for the own type x effectiveness.

    Where that is 0 for all moves it switches if it may. Who comes in, or leads, is the one with the best `matchup`
    against the opponent on the field.
    """
    moves, me, foe = attacks(view), active(view["me"]), opponent(view)
    if moves and me and foe:
        worth = {label: typed_power(dex, label, me, foe, view) for label in moves}
        if max(worth.values()) > 0 or not switches(view):
            return best(moves, worth.__getitem__, draw)
    return best_switch(view, dex, draw)


def simple_1(view: SideView, dex: Dex, draw: random.Random) -> str:
    """`typed@1` with attack and defence, hazards, boosts and retreats.

    In this order: (1) it switches to the best `matchup` if that is better than 0 and the active one has a boost of -3
    in a defence or in what it attacks with, or a matchup below -2; (2) it lays a hazard that does not lie yet while the
    opponent has 3 Pokémon or more, and clears its own side's while it has 2 or more itself; (3) at full hit points and
    with a matchup above 0 it uses a move that boosts by 2 or more stages in all, while none is boosted to 6; (4) else
    the move with the largest `typed@1` worth x attack over defence x hits; (5) it terastallizes where the tera type's
    worst defence and the type's own attack together gain more than they lose.
    """
    me, foe, moves = active(view["me"]), opponent(view), attacks(view)
    if not moves or me is None or foe is None:
        return best_switch(view, dex, draw)
    if switches(view) and _should_retreat(view, dex, me, foe):
        return best_switch(view, dex, draw)
    if special := _position(view, dex, me, foe, moves):
        return special

    def worth(label: str) -> float:
        move = dex.moves.get(known(dex, label.split(" ")[1]))
        if move is None:
            return 0.0
        pair = ("atk", "def") if move["category"] == "physical" else ("spa", "spd")
        ratio = stat(dex, me, pair[0], view["me"]) / stat(dex, foe, pair[1], view["foe"])
        return typed_power(dex, label, me, foe, view) * ratio * hits(move)

    chosen = best(moves, worth, draw)
    tera = f"{chosen} tera"
    return tera if tera in dict(view["legal"]) and _tera_pays(dex, chosen, me, foe, view) else chosen


# --- what they share ---------------------------------------------------------------------------------


def attacks(view: SideView) -> list[str]:
    """Legal moves without gimmicks."""
    return [label for label, _ in view["legal"] if label.startswith("move ") and label.count(" ") == 1]


def switches(view: SideView) -> list[str]:
    """Legal switches."""
    return [label for label, _ in view["legal"] if label.startswith("switch ")]


def best(labels: Sequence[str], worth: Callable[[str], float], draw: random.Random) -> str:
    """One of those worth most."""
    values = [(worth(label), label) for label in labels]
    best_value = max(value for value, _ in values)
    return draw.choice([label for value, label in values if value >= best_value - 1e-9])


def power(dex: Dex, label: str) -> float:
    """Base power as the tables print it."""
    move = dex.moves.get(known(dex, label.split(" ")[1]))
    return float(move["power"]) if move else 0.0


def typed_power(dex: Dex, label: str, me: Own, foe: OpposingPokemon, view: SideView) -> float:
    """Power x accuracy x same type x effectiveness."""
    id = label.split(" ")[1]
    move = dex.moves.get(known(dex, id))
    if move is None or move["category"] == "status":
        return 0.0
    kind = move_type(dex, id, me)
    base = move["power"] or (me["level"] if move.get("damage") else 60 if move.get("varies") else 0)
    same_type_bonus = 1.5 if kind in types(dex, me, view["me"]) else 1.0
    return base * accuracy(dex, id) * same_type_bonus * multiplier(dex, kind, foe, view["foe"])


def matchup(dex: Dex, mon: Own, foe: OpposingPokemon, view: SideView) -> float:
    """Match-up value of a Pokémon against the opponent on the field; above 0 is good.

    The best multiplier of its types against the foe, less the foe's against it, plus or minus 0.1 for speed, plus 0.4
    times the difference of their parts of hit points.
    """
    on_field = active(view["me"]) is mon
    own_types = types(dex, mon, view["me"] if on_field else None)
    theirs = types(dex, foe, view["foe"])
    score = max((multiplier(dex, kind, foe, view["foe"]) for kind in own_types), default=1.0)
    score -= max((multiplier(dex, kind, mon, view["me"] if on_field else None) for kind in theirs), default=1.0)
    score += 0.1 if stat(dex, mon, "spe") > stat(dex, foe, "spe") else -0.1
    return score + 0.4 * (mon["hp"] / mon["max"] - foe["hp"] / foe["max"])


def own_pokemon(view: SideView, label: str) -> Own:
    """The own Pokémon that an action names."""
    return next(mon for mon in view["me"]["team"] if mon["name"] == label.split(" ")[1])


def best_switch(view: SideView, dex: Dex, draw: random.Random) -> str:
    """Choose the Pokémon to send out or revive by `matchup`; random without an opponent."""
    foe = opponent(view)
    able = [label for label, _ in view["legal"] if not label.startswith("move ")]
    if foe is None or not able:
        return draw.choice(able or [label for label, _ in view["legal"]])
    return best(able, lambda label: matchup(dex, own_pokemon(view, label), foe, view), draw)


def _should_retreat(view: SideView, dex: Dex, me: Own, foe: OpposingPokemon) -> bool:
    better = max(matchup(dex, own_pokemon(view, label), foe, view) for label in switches(view))
    boosts = view["me"]["boosts"]
    main = "atk" if me["stats"][0] >= me["stats"][2] else "spa"
    weak = min(boosts.get(name, 0) for name in ("def", "spd", main)) <= -3
    return better > 0 and (weak or matchup(dex, me, foe, view) < -2)


def _position(view: SideView, dex: Dex, me: Own, foe: OpposingPokemon, moves: list[str]) -> str:
    """A hazard, its removal or a boost, where the rules of `simple@1` want one."""
    theirs = view["foe"]["size"] - sum(mon["hp"] == 0 for mon in view["foe"]["team"])
    ours = sum(mon["hp"] > 0 for mon in view["me"]["team"])
    for label in moves:
        id = label.split(" ")[1]
        move = dex.moves.get(known(dex, id))
        if move is None:
            continue
        hazard = str(move.get("sideCondition", ""))
        if hazard in HAZARDS and theirs >= 3 and hazard not in view["foe"]["conditions"]:
            return label
        if id in CLEARING and ours >= 2 and HAZARDS & view["me"]["conditions"].keys():
            return label
        boosts = move.get("boosts", {}) if move["target"] == "self" else {}
        gained = sum(max(0, n) for n in boosts.values())
        top = max((view["me"]["boosts"].get(name, 0) for name in boosts if name in STATS), default=6)
        if gained >= 2 and me["hp"] == me["max"] and top < 6 and matchup(dex, me, foe, view) > 0:
            return label
    return ""


def _tera_pays(dex: Dex, label: str, me: Own, foe: OpposingPokemon, view: SideView) -> bool:
    tera = str(me.get("tera", ""))
    if not tera or tera == "stellar":
        return False
    theirs, now = types(dex, foe, view["foe"]), types(dex, me, view["me"])
    safer = max(dex.effectiveness(kind, now) for kind in theirs) - max(
        dex.effectiveness(kind, [tera]) for kind in theirs
    )
    kind = move_type(dex, label.split(" ")[1], me)
    stronger = (0.5 if kind == tera else 0.0) * dex.effectiveness(kind, theirs)
    return safer + stronger > 0.5
