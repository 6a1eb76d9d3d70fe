"""Coach's labels while another player acts: shares of the legal actions for a student.

ask = adviser("veteran@1", env, "p1", seed=3)
while env.agents:
    shares = ask()          # {"move surf": 1.0}; p1 may do something else
    env.step(actions)
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import cast

from palaver.core import PolicyError, did_you_mean
from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.players.registry import HEURISTICS
from palaver.envs.pokemon.players.search import advised
from palaver.envs.pokemon.showdown import Side

SEARCH = "search@1"
ADVISERS = (*HEURISTICS, SEARCH)
Ask = Callable[[], Mapping[str, float]]  # -> legal action -> how good it is held to be; they add up to 1


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
