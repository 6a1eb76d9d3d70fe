"""Rules that estimate damage: `damage@1`, `gym_leader@1`, `veteran@1`."""

from __future__ import annotations

import random

from palaver.envs.pokemon.players.damage import accuracy, damage, left, multiplier, presumed, stat
from palaver.envs.pokemon.players.simple import HAZARDS, attacks, best, own_pokemon, random_1, switches
from palaver.envs.pokemon.showdown.dex import STATS, Dex, Move, active, known, opponent, types
from palaver.envs.pokemon.showdown.view import OpposingPokemon, Own, SideView

RECHARGE = ("hyperbeam", "gigaimpact", "blastburn", "frenzyplant", "hydrocannon", "roaroftime", "rockwrecker")
STATUSES = {"slp": 1.2, "frz": 1.2, "par": 0.55, "tox": 0.6, "brn": 0.4, "psn": 0.3}  # worth, in parts of a knock-out
_IMMUNE = {"brn": ("fire",), "psn": ("poison", "steel"), "tox": ("poison", "steel"), "frz": ("ice",)}
SWITCHING = 0.35  # cost of a switch, compared with the attack that is taken
SLOW = 6.0  # hits: a race that takes longer is undecided


def damage_1(view: SideView, dex: Dex, draw: random.Random) -> str:
    """The move with the largest expected damage, accuracy included.

    A knock-out beats more than it takes. Who comes in is the one with the best `duel` against the opponent on the
    field. It never switches of its own accord unless no move does damage.
    """
    me, foe, moves = active(view["me"]), opponent(view), attacks(view)
    if not moves or me is None or foe is None:
        return comes_in(view, dex, draw)
    worth = {label: hit(dex, label, me, foe, view) for label in moves}
    if max(worth.values()) <= 0 and switches(view):
        return comes_in(view, dex, draw)
    return best(moves, worth.__getitem__, draw)


def gym_leader_1(view: SideView, dex: Dex, draw: random.Random) -> str:
    """`damage@1` that sees danger and chances.

    In this order: (1) with no move above a tenth of the opponent's hit points, or about to faint to Perish Song, it
    switches if it may; (2) a move that knocks out what is left is used; (3) below a third of its hit points it heals
    with probability 3/4 if that gives more than the opponent is presumed to take; (4) an opponent with more than half
    of its hit points and no status is put to sleep or paralysed, burned or poisoned where the type allows it; (5) in
    its first turn with more than 0.9 of its hit points it boosts with probability 1/2 if the opponent is presumed to
    take less than half of them; (6) else the largest expected damage.
    """
    me, foe, moves = active(view["me"]), opponent(view), attacks(view)
    if not moves or me is None or foe is None:
        return comes_in(view, dex, draw)
    worth = {label: hit(dex, label, me, foe, view) for label in moves}
    perish = view["me"]["volatiles"].get("perish", [0, 9])[1:] == [1]
    if switches(view) and (perish or max(worth.values()) < 0.1):
        return comes_in(view, dex, draw)
    if max(worth.values()) >= left(foe):
        return best(moves, worth.__getitem__, draw)
    danger = presumed(dex, foe, me, view["foe"], view["me"])
    for label in moves:
        move = dex.moves.get(known(dex, label.split(" ")[1]))
        if move is None or move["category"] != "status":
            continue
        if left(me) < 1 / 3 and heals(move) > max(1 / 3, danger) and draw.random() < 0.75:
            return label
        if left(foe) > 0.5 and status_worth(dex, move, foe, view) > 0:
            return label
        fresh = view["me"]["entered"] >= _turn(view) - 1 and left(me) > 0.9
        if fresh and boosted(move) > 1 and danger < 0.5 and draw.random() < 0.5:
            return label
    return best(moves, worth.__getitem__, draw)


def veteran_1(view: SideView, dex: Dex, draw: random.Random) -> str:
    """The action with the best position after it, measured in Pokémon.

    A `duel` is how many hits each of two Pokémon needs, by estimated damage, who is faster counting half a hit: 1 is a
    race won at once, -1 one lost. A move is worth the duel it leaves: damage shortens it; sleep, paralysis, poison and
    burn are worth `STATUSES`; boosts the duel with them, if a hit is survived; healing what it gives beyond the
    presumed damage; hazards 0.15 for each Pokémon left. A switch is worth the duel of who comes in, having taken the
    presumed attack, less 0.35. It terastallizes where its attack gains a quarter or more of the opponent's hit points.
    """
    me, foe = active(view["me"]), opponent(view)
    worth = veteran_worth(view, dex)
    if not worth or me is None or foe is None:
        return comes_in(view, dex, draw)
    chosen = best(list(worth), worth.__getitem__, draw)
    tera = f"{chosen} tera"
    return tera if tera in dict(view["legal"]) and _tera_gain(dex, chosen, me, foe, view) >= 0.25 else chosen


def veteran_worth(view: SideView, dex: Dex) -> dict[str, float]:
    """Position values that `veteran@1` compares, by action; empty where it may not attack."""
    me, foe, moves = active(view["me"]), opponent(view), attacks(view)
    if not moves or me is None or foe is None:
        return {}
    danger = presumed(dex, foe, me, view["foe"], view["me"])
    worth = {label: _move_worth(dex, label, me, foe, view, danger) for label in moves}
    for label in switches(view):
        worth[label] = _switch_worth(dex, own_pokemon(view, label), foe, view) - SWITCHING
    return worth


# --- estimates ---------------------------------------------------------------------------------------


def hit(dex: Dex, label: str, me: Own, foe: OpposingPokemon, view: SideView) -> float:
    """Expected part of the opponent's full hit points that a move takes.

    At most the part that is left. Moves that take two turns count half, those that cost the user its life as much less
    as it still has.
    """
    id = label.split(" ")[1]
    move = dex.moves.get(known(dex, id))
    awake = id == "dreameater" and foe["status"] != "slp"
    late = id in ("fakeout", "firstimpression") and view["me"]["entered"] < _turn(view) - 1
    if move is None or awake or late:
        return 0.0
    raw = damage(dex, id, me, foe, view["me"], view["foe"], view["weather"][0] if view["weather"] else "")
    taken = min(raw, left(foe))
    if raw >= left(foe):
        taken += 0.1 + 0.05 * min(3.0, move.get("priority", 0))
    ends = dex.gen == 1 and raw >= left(foe)
    if (
        "charge" in move["flags"]
        or (("recharge" in move["flags"] or id in RECHARGE) and not ends)
        or id == "focuspunch"
    ):
        taken /= 2
    if move.get("selfdestruct"):
        taken -= 0.8 * left(me)
    return taken * accuracy(dex, id)


def duel(dex: Dex, mine: Own, foe: OpposingPokemon, view: SideView, health: float | None = None) -> float:
    """Value of an own Pokémon against the opponent on the field, from -1 to 1.

    Args:
        health: the part of its hit points that it has; None: as it is.
    """
    on_field = active(view["me"]) is mine
    player = view["me"] if on_field else None
    weather = view["weather"][0] if view["weather"] else ""
    usable = [str(id) for id, pp, _ in mine["moves"] if pp > 0]
    give = max(
        (damage(dex, id, mine, foe, player, view["foe"], weather) * accuracy(dex, id) for id in usable), default=0.0
    )
    take = presumed(dex, foe, mine, view["foe"], player)
    faster = stat(dex, mine, "spe", player) > stat(dex, foe, "spe", view["foe"])
    return _race(give, take, left(foe), left(mine) if health is None else health, faster, mine, foe)


def _race(give: float, take: float, theirs: float, ours: float, faster: bool, mine: Own, foe: OpposingPokemon) -> float:
    asleep = {"slp": 2.0, "frz": 3.0}
    we = (min(SLOW, theirs / give) if give > 0 else 2 * SLOW) + asleep.get(mine["status"], 0.0)
    they = min(SLOW, ours / max(take, 1e-3)) + asleep.get(foe["status"], 0.0)
    we, they = max(1.0, we) - 0.5 * faster, max(1.0, they)
    return (they - we) / (they + we)


def comes_in(view: SideView, dex: Dex, draw: random.Random) -> str:
    """Choose the Pokémon to send out or revive by the best duel; random without an opponent."""
    foe = opponent(view)
    able = [label for label, _ in view["legal"] if not label.startswith("move ")]
    if not able:
        return random_1(view, dex, draw)
    if foe is None:
        if view["foe"]["team"]:
            foes = view["foe"]["team"]
            return best(able, lambda label: sum(duel(dex, own_pokemon(view, label), one, view) for one in foes), draw)
        return draw.choice(able)
    health = 0.5 if view["request"] == "revive" else None
    return best(able, lambda label: duel(dex, own_pokemon(view, label), foe, view, health), draw)


def heals(move: Move) -> float:
    """The part of its hit points that a status move gives its user."""
    fraction = move.get("heal")
    if isinstance(fraction, list) and len(fraction) == 2 and move["target"] == "self":
        return float(fraction[0]) / float(fraction[1])
    return 1.0 if move["name"] == "Rest" else 0.5 if "heal" in move["flags"] and move["target"] == "self" else 0.0


def boosted(move: Move) -> int:
    """Number of stages of the five stats that a move gives its user in all."""
    return sum(n for name, n in move.get("boosts", {}).items() if name in STATS) if move["target"] == "self" else 0


def status_worth(dex: Dex, move: Move, foe: OpposingPokemon, view: SideView) -> float:
    """Value of a status move's condition against this opponent, 0 where it cannot work."""
    status = str(move.get("status", ""))
    if status not in STATUSES or foe["status"] or move["target"] == "self" or "substitute" in view["foe"]["volatiles"]:
        return 0.0
    kinds = types(dex, foe, view["foe"])
    if any(kind in _IMMUNE.get(status, ()) for kind in kinds) or (
        status == "par" and dex.gen > 5 and "electric" in kinds
    ):
        return 0.0
    if (move["type"] in ("electric", "ground")) and not multiplier(dex, move["type"], foe, view["foe"]):
        return 0.0
    sleeping = any(mon["status"] == "slp" and mon["hp"] for mon in view["foe"]["team"])  # most formats' sleep clause
    if (status == "slp" and sleeping) or (dex.gen > 5 and "powder" in move["flags"] and "grass" in kinds):
        return 0.0
    slow = status == "par" and stat(dex, foe, "spe") < 150
    return STATUSES[status] * (0.6 if slow else 1.0) * (1.0 if move["accuracy"] is None else move["accuracy"] / 100)


def _move_worth(dex: Dex, label: str, me: Own, foe: OpposingPokemon, view: SideView, danger: float) -> float:
    id = label.split(" ")[1]
    move = dex.moves.get(known(dex, id))
    if move is None:
        return -1.0
    stays = duel(dex, me, foe, view)
    if move["category"] != "status":
        chances = ((str(e.get("status", "")), e.get("chance", 100) / 100) for e in move.get("secondaries", []))
        extra: float = sum(chance * STATUSES.get(id, 0.0) * (not foe["status"]) * 0.5 for id, chance in chances)
        return stays + hit(dex, label, me, foe, view) + extra + (0.1 if move.get("selfSwitch") else 0.0)
    survives = danger < left(me)
    worth = stays + left(foe) * status_worth(dex, move, foe, view)
    if heals(move):
        gained = min(heals(move), 1 - left(me))
        if id == "rest":
            gained *= 0.5
        worth += max(-0.5, gained - danger) if survives or danger < gained else -0.5
    rising = boosted(move)
    if rising > 0 and survives and all(view["me"]["boosts"].get(name, 0) < 4 for name in move.get("boosts", {})):
        worth += 0.25 * min(2, rising) * (1 - min(1.0, danger / max(left(me), 1e-3)))
    hazard = str(move.get("sideCondition", ""))
    if hazard in HAZARDS and hazard not in view["foe"]["conditions"]:
        alive = view["foe"]["size"] - sum(mon["hp"] == 0 for mon in view["foe"]["team"])
        worth += 0.15 * (alive - 1)
    return worth


def _switch_worth(dex: Dex, mon: Own, foe: OpposingPokemon, view: SideView) -> float:
    taken = presumed(dex, foe, mon, view["foe"]) * (0.3 if foe["status"] in ("slp", "frz") else 0.8)
    if "stealthrock" in view["me"]["conditions"]:
        taken += 0.125 * dex.effectiveness("rock", types(dex, mon))
    health = left(mon) - taken
    return -1.0 if health <= 0 else duel(dex, mon, foe, view, health)


def _tera_gain(dex: Dex, label: str, me: Own, foe: OpposingPokemon, view: SideView) -> float:
    if not label.startswith("move "):
        return 0.0
    changed: Own = {**me, "terastallized": True}
    return hit(dex, label, changed, foe, view) - hit(dex, label, me, foe, view)


def _turn(view: SideView) -> int:
    """The turn as far as the view shows: the last that something on either side began in."""
    began = [view["me"]["entered"], view["foe"]["entered"]]
    began += [turn for player in (view["me"], view["foe"]) for _, turn in player["conditions"].values()]
    return max(began) + 1
