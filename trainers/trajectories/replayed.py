"""A parsed replay of metamon's as the views that our words and numbers are made of.

What their states do not hold is guessed from the other states, or missing:

* the own team is all that the replay shows of it, and who is neither active nor on the bench has fainted;
* the opponent's team is what was seen so far, as it was seen last, and what team preview showed;
* of side conditions, volatiles and fields only the latest is known, spikes count one layer, and weather and the like
  began when a state first showed them;
* the turn is the number of states so far in which a move could be chosen;
* legal is every move and every switch that a state offers: traps, disabled moves and spent moves are not known, nor is
  who has terastallized, but changed types are;
* computed stats, turns asleep and genders are missing. Hit points are parts of 1000.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from palaver.envs.pokemon.showdown.dex import Dex
from palaver.envs.pokemon.showdown.view import SideView

POINTS = 1000  # the most hit points that a Pokémon is given
TEAM, MOVES = 6, 4
STAGES = ("atk", "def", "spa", "spd", "spe", "accuracy", "evasion")
ITEMS, ABILITIES = 2, 3  # the generations that brought them
_NOT = {
    "noeffect",
    "noconditions",
    "nofield",
    "noweather",
    "nostatus",
    "noitem",
    "noability",
    "notype",
    "fnt",
    "nomove",
}


def identifier(name: str) -> str:
    """A name as the simulator's id: lower case, letters and digits only."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def species_name(mon: Mapping[str, Any]) -> str:
    """Name of a Pokémon in all states, independent of its forme."""
    return identifier(mon.get("base_species") or mon["name"])


class ReplayedBattle:
    """The states of one file, looked at one after the other.

    Args:
        states: as the file holds them.
        dex: of the generation.

    Attributes:
        turn: of the last view.

    Raises:
        ValueError: one side has more than six Pokémon.
    """

    def __init__(self, states: Sequence[Mapping[str, Any]], dex: Dex) -> None:
        self._states, self._dex = states, dex
        self._team: dict[str, Mapping[str, Any]] = {}
        for state in states:
            for mon in (state["player_active_pokemon"], *state["available_switches"]):
                self._team.setdefault(species_name(mon), mon)
        if len(self._team) > TEAM:
            raise ValueError(f"a side has {len(self._team)} Pokémon: {', '.join(self._team)}")
        self._foe: dict[str, dict[str, Any]] = {}
        self._facing = ""
        self._since: dict[str, int] = {}
        self.turn = 0

    def view(self, n: int) -> SideView:
        """Information of the side in a state; states must be requested in order.

        Raises:
            ValueError, KeyError, TypeError: it is no state.
        """
        state = self._states[n]
        forced = bool(state["forced_switch"])
        self.turn += not forced or not n
        active, bench = state["player_active_pokemon"], {species_name(mon): mon for mon in state["available_switches"]}
        reviving = bool(bench) and all(mon["hp_pct"] <= 0 for mon in bench.values())
        self._team |= bench | {species_name(active): active}
        weather, field = (self._began(state[key]) for key in ("weather", "battle_field"))
        view = {
            "request": "revive" if reviving else "switch" if forced else "move",
            "legal": self._legal(state),
            "trapped": "",
            "me": self._mine(state, bench, reviving),
            "foe": self._theirs(state),
            "weather": next(iter(weather.items()), None),
            "field": field,
            "lines": [],
        }
        return cast("SideView", view)

    def _began(self, what: str) -> dict[str, int]:
        """Present effect -> the turn in which it was first seen."""
        id = identifier(what)
        if id in _NOT:
            return {}
        return {id: self._since.setdefault(id, self.turn)}

    def _legal(self, state: Mapping[str, Any]) -> list[tuple[str, str]]:
        labels = [
            f"{'switch' if mon['hp_pct'] > 0 else 'revive'} {species_name(mon)}" for mon in state["available_switches"]
        ]
        if not state["forced_switch"]:
            moves = [identifier(move["name"]) for move in state["player_active_pokemon"]["moves"][:MOVES]]
            labels += [f"move {id}" for id in moves or ["struggle"]]
            labels += [f"move {id} tera" for id in moves if state.get("can_tera")]
        return [(label, "") for label in sorted(labels)]

    def _mine(self, state: Mapping[str, Any], bench: Mapping[str, Any], reviving: bool) -> dict[str, Any]:
        active, team = species_name(state["player_active_pokemon"]), []
        for slot, (name, mon) in enumerate(self._team.items(), start=1):
            gone = name != active and (name in bench) == reviving
            entry = self._known(mon) | {"name": name, "stats": [0] * 5, "slot": slot}
            entry["moves"] = [(identifier(m["name"]), m["current_pp"], m["max_pp"]) for m in mon["moves"][:MOVES]]
            team.append(entry | {"hp": 0} if gone else entry)
        side = self._side_state(state["player_active_pokemon"], state["player_conditions"])
        return side | {"active": list(self._team).index(active), "team": team}

    def _theirs(self, state: Mapping[str, Any]) -> dict[str, Any]:
        mon = state["opponent_active_pokemon"]
        name, remaining = species_name(mon), int(state["opponents_remaining"])
        fainted = sum(not foe["hp"] for foe in self._foe.values())
        if self._facing and name != self._facing and remaining < TEAM - fainted:
            self._foe[self._facing]["hp"] = 0
        seen = self._known(mon) | {"name": name, "gone": "", "terastallized": False, "seen": True}
        blank = {"item": self._dex.gen < ITEMS, "ability": self._dex.gen < ABILITIES, "tera": not seen["tera"]}
        seen |= {key: None for key, unknown in blank.items() if unknown}  # as our own views have it
        seen["moves"] = [(identifier(m["name"]), max(0, m["max_pp"] - m["current_pp"])) for m in mon["moves"][:MOVES]]
        self._foe[name], self._facing = seen, name
        for species in map(identifier, state.get("opponent_teampreview") or ()):
            if species not in self._foe and len(self._foe) < TEAM:
                self._foe[species] = {
                    "name": species,
                    "species": species,
                    "level": 100,
                    "gender": "",
                    "hp": POINTS,
                    "max": POINTS,
                    "status": "",
                    "moves": [],
                    "item": None,
                    "gone": "",
                    "ability": None,
                    "tera": None,
                    "terastallized": False,
                    "seen": False,
                }
        size = remaining + sum(not foe["hp"] for foe in self._foe.values())
        team = [dict(foe) for foe in self._foe.values()]
        return self._side_state(mon, state["opponent_conditions"]) | {
            "active": list(self._foe).index(name),
            "team": team,
            "size": size,
        }

    def _known(self, mon: Mapping[str, Any]) -> dict[str, Any]:
        hp_share = float(mon["hp_pct"])
        generation = self._dex.gen
        return {
            "species": identifier(mon["name"]),
            "level": int(mon["lvl"]),
            "gender": "",
            "max": POINTS,
            "hp": min(POINTS, max(1, round(POINTS * hp_share))) if hp_share > 0 else 0,
            "status": _identified(mon["status"]) or "",
            "item": _identified(mon["item"]) if generation >= ITEMS else "",
            "ability": _identified(mon["ability"]) if generation >= ABILITIES else "",
            "tera": _identified(mon.get("tera_type") or "notype") or "",
        }

    def _side_state(self, mon: Mapping[str, Any], condition: str) -> dict[str, Any]:
        volatiles: dict[str, list[Any]] = {}
        effect = identifier(mon["effect"])
        if effect not in _NOT:
            volatiles[effect] = [self.turn]
        species = self._dex.species.get(identifier(mon["name"]))
        kinds = [kind for kind in mon["types"].split() if kind not in _NOT]
        if species and kinds and sorted(kinds) != sorted(species["types"]):
            volatiles["typechange"] = [self.turn, "/".join(kinds)]
        boosts = {stat: int(mon[f"{stat}_boost"]) for stat in STAGES}
        return {
            "entered": self.turn,
            "boosts": {stat: stage for stat, stage in boosts.items() if stage},
            "volatiles": volatiles,
            "conditions": {} if identifier(condition) in _NOT else {identifier(condition): [1, self.turn]},
        }


def _identified(what: str) -> str | None:
    """An id; "" for none, None where it is unknown."""
    id = identifier(what)
    return None if id.startswith("unknown") else "" if id in _NOT else id
