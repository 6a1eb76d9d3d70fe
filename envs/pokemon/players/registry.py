"""The heuristics as players of the arena, and coach's labels for a student.

Labels are shares of the legal actions. The heuristics see what their own side may see.

    ask = adviser("veteran@1", env, "p1", seed=3)
    while env.agents:
        shares = ask()          # {"move surf": 1.0}; p1 may do something else
        env.step(actions)
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any, cast

from palaver.core import PolicyError, did_you_mean
from palaver.envs.base.env import TextEnv
from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.players import expert, simple
from palaver.envs.pokemon.players.search import advised
from palaver.envs.pokemon.showdown import Side
from palaver.envs.pokemon.showdown.dex import Dex
from palaver.envs.pokemon.showdown.view import SideView

Rule = Callable[[SideView, Dex, random.Random], str]
Choose = Callable[[str, Mapping[str, Any]], str]

HEURISTICS: Mapping[str, Rule] = {
    "random@1": simple.random_1,
    "max_power@1": simple.max_power_1,
    "typed@1": simple.typed_1,
    "simple@1": simple.simple_1,
    "damage@1": expert.damage_1,
    "gym_leader@1": expert.gym_leader_1,
    "veteran@1": expert.veteran_1,
}
SEARCH = "search@1"
ADVISERS = (*HEURISTICS, SEARCH)
Ask = Callable[[], Mapping[str, float]]  # -> legal action -> how good it is held to be; they add up to 1


def player(name: str, env: TextEnv, agent: str, seed: int) -> Choose:
    """A heuristic for one game.

    Raises:
        PolicyError: no such heuristic, or another environment.
    """
    if name not in HEURISTICS:
        raise PolicyError(f"there is no heuristic {name!r:.40}.{did_you_mean(name[:40], HEURISTICS)}")
    if not isinstance(env, PokemonEnv):
        raise PolicyError(f"{name} plays pokemon-v1 only")
    rule, draw = HEURISTICS[name], random.Random(seed)
    return lambda _observation, _info: rule(env.view(agent), env.dex, draw)


def _begin(name: str) -> Callable[[TextEnv, str, int], Choose]:
    return lambda env, agent, seed: player(name, env, agent, seed)


random_1 = _begin("random@1")
max_power_1 = _begin("max_power@1")
typed_1 = _begin("typed@1")
simple_1 = _begin("simple@1")
damage_1 = _begin("damage@1")
gym_leader_1 = _begin("gym_leader@1")
veteran_1 = _begin("veteran@1")


def check(name: str) -> None:
    """Refuse a player that can only play.

    Raises:
        PolicyError: it gives no advice.
    """
    if name not in ADVISERS:
        raise PolicyError(
            f"{name!r:.40} gives no advice; a heuristic or {SEARCH} does.{did_you_mean(name[:40], ADVISERS)}"
        )


def adviser(name: str, env: PokemonEnv, agent: str, seed: int) -> Ask:
    """Begin a game as the coach of a side; to be queried only when the side may act.

    A heuristic labels one action as the best. `search@1` knows less exactly, see
    `palaver.envs.pokemon.players.search.advised`.

    Raises:
        PolicyError: a player that gives no advice.
    """
    check(name)
    draw, side = random.Random(seed), cast("Side", agent)

    def ask() -> Mapping[str, float]:
        assert env.battle is not None
        view = env.view(side)
        if len(view["legal"]) == 1:
            return {view["legal"][0][0]: 1.0}
        if name == SEARCH:
            return advised(env.battle, env.dex, side, draw)
        return {HEURISTICS[name](view, env.dex, draw): 1.0}

    return ask
