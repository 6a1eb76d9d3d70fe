"""The heuristics as players of the arena: they see what their own side may see."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from palaver.core import PolicyError, did_you_mean
from palaver.envs.base.env import TextEnv
from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.players import expert, simple
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
