"""The heuristics as players of the arena, and coach's labels for a student.

Labels are shares of the legal actions. The heuristics see what their own side may see.

    ask = adviser("veteran@1", env, "p1", seed=3)
    while env.agents:
        shares = ask()          # {"move surf": 1.0}; p1 may do something else
        env.step(actions)
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from palaver.core import Conversation, PolicyError, did_you_mean, stable_seed
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


random_1 = partial(player, "random@1")
max_power_1 = partial(player, "max_power@1")
typed_1 = partial(player, "typed@1")
simple_1 = partial(player, "simple@1")
damage_1 = partial(player, "damage@1")
gym_leader_1 = partial(player, "gym_leader@1")
veteran_1 = partial(player, "veteran@1")


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


_LISTED = re.compile(r"^\d+\. ((?:move|switch|lead|revive) [a-z0-9]+(?: [a-z]+)?)(?: \((.*)\))?$", re.MULTILINE)
_POWER = re.compile(r"power (\d+|varying), x([\d.]+) on them, (?:accuracy (\d+)|always hits)")


def reference(conversation: Conversation, seed: int) -> str:
    """The listed move with the largest power x effectiveness x accuracy.

    Where none does damage, it is any action, drawn at random.
    """
    listed = _LISTED.findall(conversation[-1].content) if conversation else []
    if not listed:
        return ""
    worth = {action: _worth(about) for action, about in listed if action.count(" ") == 1}
    best_worth = max(worth.values(), default=0.0)
    best = (
        [action for action in worth if worth[action] == best_worth] if best_worth else [action for action, _ in listed]
    )
    return str(best[stable_seed("pokemon", conversation[-1].content, seed) % len(best)])


def uniform(conversation: Conversation, seed: int) -> str:
    """Any of the listed actions, drawn by the seed and the text."""
    listed = _LISTED.findall(conversation[-1].content) if conversation else []
    return str(listed[stable_seed("pokemon", conversation[-1].content, seed) % len(listed)][0]) if listed else ""


def _worth(about: str) -> float:
    match = _POWER.search(about)
    if not match:
        return 0.0
    power, effect, accuracy = match.groups()
    return (60.0 if power == "varying" else float(power)) * float(effect) * float(accuracy or 100)
