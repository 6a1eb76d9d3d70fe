"""Estimates of damage from what one side knows. All are deterministic."""

from __future__ import annotations

from palaver.envs.pokemon.showdown.dex import STATS, Dex, Move, known, move_type, types
from palaver.envs.pokemon.showdown.view import Mine, OpposingPokemon, Own, Theirs

Mon = Own | OpposingPokemon
Seat = Mine | Theirs

ROLL = 0.925  # the mean of 0.85 to 1
UNKNOWN_POWER = 60  # of moves that compute their power
PRESUMED_POWER = 80  # of an attack of its own type that a Pokémon has not shown
_POWERS = {"return": 102, "frustration": 1, "facade": 70, "hiddenpower": 60, "lowkick": 80, "grassknot": 80}
_HALVES = frozenset({"superfang", "naturesmadness", "ruination"})
_ABSORBS = {
    "levitate": "ground",
    "eartheater": "ground",
    "flashfire": "fire",
    "wellbakedbody": "fire",
    "waterabsorb": "water",
    "dryskin": "water",
    "stormdrain": "water",
    "voltabsorb": "electric",
    "lightningrod": "electric",
    "motordrive": "electric",
    "sapsipper": "grass",
}
_BOOSTING = {"choiceband": ("physical", 1.5), "choicespecs": ("special", 1.5)}


def stage(n: int) -> float:
    """Multiplier of a stat by a boost."""
    return (2 + n) / 2 if n >= 0 else 2 / (2 - n)


def stat(dex: Dex, mon: Mon, name: str, player: Seat | None = None) -> float:
    """Stat of a Pokémon: attack, defence, special attack, special defence or speed.

    Burn and paralysis count, and boosts if `player` is given. The opponent's stats are estimated: highest values in
    generations 1 and 2, middling ones later.
    """
    n = STATS.index(name)
    exact_stats = mon.get("stats")
    value = float(exact_stats[n]) if isinstance(exact_stats, list) else _estimated(dex, mon, n + 1) + 5
    if player is not None:
        value *= stage(player["boosts"].get(name, 0))
    if name == "spe" and mon["status"] == "par":
        value *= 0.25 if dex.gen < 7 else 0.5
    if name == "atk" and mon["status"] == "brn" and mon.get("ability") != "guts":
        value *= 0.5
    return value


def hit_points(dex: Dex, mon: Mon) -> float:
    """The most it can have; estimated for the opponent's."""
    if "stats" in mon:
        return float(mon["max"])
    return _estimated(dex, mon, 0) + mon["level"] + 10


def _base(dex: Dex, mon: Mon, n: int) -> int:
    species = dex.species.get(mon["species"])
    return species["stats"][n] if species else 80


def _estimated(dex: Dex, mon: Mon, n: int) -> int:
    """A stat by level and base stat, before what is added for its kind."""
    return (2 * _base(dex, mon, n) + (93 if dex.gen < 3 else 52)) * mon["level"] // 100


def left(mon: Mon) -> float:
    """The part of its hit points that is left."""
    return float(mon["hp"] / mon["max"])


def accuracy(dex: Dex, id: str) -> float:
    """The chance to hit, without changes of accuracy and evasion."""
    move = dex.moves.get(known(dex, id))
    return 1.0 if move is None or move["accuracy"] is None else move["accuracy"] / 100


def multiplier(dex: Dex, kind: str, target: Mon, player: Seat | None = None) -> float:
    """Effectiveness of a type of attack against a Pokémon.

    It depends on its types, and on abilities that it must have or has shown.
    """
    effect = dex.effectiveness(kind, types(dex, target, player))
    ability = target.get("ability")
    if ability is None and dex.gen > 2:
        species = dex.species.get(target["species"])
        ability = species["abilities"][0] if species and len(species["abilities"]) == 1 else ""
    if _ABSORBS.get(str(ability)) == kind or (target.get("item") == "airballoon" and kind == "ground"):
        return 0.0
    if ability == "wonderguard" and effect <= 1:
        return 0.0
    if ability == "thickfat" and kind in ("fire", "ice"):
        effect *= 0.5
    return effect


def damage(
    dex: Dex, id: str, user: Mon, target: Mon, mine: Seat | None = None, theirs: Seat | None = None, weather: str = ""
) -> float:
    """The mean damage of a hit, as a part of the target's full hit points; 0 for status moves.

    Seats are given for Pokémon that are on the field. Left out: accuracy, what is not known, and most abilities.
    """
    move = dex.moves.get(known(dex, id))
    if move is None or move["category"] == "status":
        return 0.0
    kind = move_type(dex, id, user)
    effect = multiplier(dex, kind, target, theirs)
    max_hp = hit_points(dex, target)
    if not effect or max_hp <= 0:
        return 0.0
    fixed = _fixed(move, id, user, target)
    if fixed is not None:
        return fixed if id in _HALVES or move.get("ohko") else fixed / max_hp
    power = _POWERS.get("hiddenpower" if id.startswith("hiddenpower") else id, move["power"] or UNKNOWN_POWER)
    points = ((2 * user["level"] / 5 + 2) * power * _ratio(dex, move, user, target, mine, theirs)) / 50 + 2
    points *= effect * ROLL * hits(move) * _extra(dex, move, kind, user, weather)
    return points * _screens(dex, move, theirs) * _critical(dex, move, user) / max_hp


def presumed(dex: Dex, user: Mon, target: Mon, mine: Seat | None = None, theirs: Seat | None = None) -> float:
    """Largest expected damage of the opponent's Pokémon, by seen moves and its own types.

    As a part of the target's full hit points, times the chance to hit.
    """
    seen = [str(move[0]) for move in user["moves"]]
    best = max((damage(dex, id, user, target, mine, theirs) * accuracy(dex, id) for id in seen), default=0.0)
    if len(seen) >= 4:
        return best
    max_hp = hit_points(dex, target)
    for kind in types(dex, user, mine):
        effect = multiplier(dex, kind, target, theirs)
        attack = max(
            stat(dex, user, a, mine) / max(1.0, stat(dex, target, d, theirs))
            for a, d in (("atk", "def"), ("spa", "spd"))
        )
        points = ((2 * user["level"] / 5 + 2) * PRESUMED_POWER * attack) / 50 + 2
        best = max(best, points * effect * 1.5 * ROLL / max_hp)
    return best


def _fixed(move: Move, id: str, user: Mon, target: Mon) -> float | None:
    """Points of damage that do not depend on stats.

    Moves that take a part of the hit points count with that part of all.
    """
    amount = move.get("damage")
    if amount == "level":
        return float(user["level"])
    if isinstance(amount, int):
        return float(amount)
    if id in _HALVES:
        return left(target) / 2
    if move.get("ohko"):
        return 1.0
    if id == "psywave":
        return 0.75 * user["level"]
    return 0.0 if id in ("counter", "mirrorcoat", "metalburst", "bide", "endeavor") else None


def _ratio(dex: Dex, move: Move, user: Mon, target: Mon, mine: Seat | None, theirs: Seat | None) -> float:
    physical = move["category"] == "physical"
    attack = str(move.get("overrideOffensiveStat") or ("atk" if physical else "spa"))
    defence = str(move.get("overrideDefensiveStat") or ("def" if physical else "spd"))
    resisting = stat(dex, target, defence, theirs)
    if dex.gen == 1 and theirs is not None and ("reflect" if physical else "lightscreen") in theirs["volatiles"]:
        resisting *= 2
    if move.get("selfdestruct") and dex.gen < 5:
        resisting /= 2
    return stat(dex, user, attack, mine) / max(1.0, resisting)


def hits(move: Move) -> float:
    """Mean number of hits of a move."""
    many = move.get("multihit")
    if isinstance(many, int):
        return float(many)
    return 3.0 if many else 1.0


def _extra(dex: Dex, move: Move, kind: str, user: Mon, weather: str) -> float:
    """Same type, weather, items."""
    factor = 1.0
    if kind in types(dex, user):
        species = dex.species.get(user["species"])
        factor *= 2.0 if user.get("terastallized") and species and kind in species["types"] else 1.5
    wet, hot = weather in ("raindance", "primordialsea"), weather in ("sunnyday", "desolateland")
    if wet or hot:
        factor *= {"water": 1.5 if wet else 0.5, "fire": 1.5 if hot else 0.5}.get(kind, 1.0)
    item = str(user.get("item") or "")
    if _BOOSTING.get(item, ("", 1.0))[0] == move["category"]:
        factor *= _BOOSTING[item][1]
    if item == "lifeorb":
        factor *= 1.3
    if user.get("ability") in ("hugepower", "purepower") and move["category"] == "physical":
        factor *= 2
    return factor


def _screens(dex: Dex, move: Move, theirs: Seat | None) -> float:
    if dex.gen == 1 or theirs is None:
        return 1.0
    screen = "reflect" if move["category"] == "physical" else "lightscreen"
    return 0.5 if screen in theirs["conditions"] or "auroraveil" in theirs["conditions"] else 1.0


def _critical(dex: Dex, move: Move, user: Mon) -> float:
    """Chance of a critical hit in generation 1, by base speed.

    Fast Pokémon land critical hits, worth about twice the damage, often.
    """
    high = move.get("critRatio", 1) != 1
    if dex.gen > 1:
        return 1.125 if high else 1.04
    return 1 + 0.95 * min(255 / 256, _base(dex, user, 5) / 512 * (8 if high else 1))
