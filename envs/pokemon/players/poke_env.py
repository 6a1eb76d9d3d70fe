"""Players of poke-env in the arena, fed from the embedded simulator.

There is no server, and every battle can be repeated. A player sees what its own side would be sent: the protocol's
lines and its request. Its own answer is read like any other text, so what poke-env offers and the request does not
allow counts as illegal. poke-env's players draw from the process's `random`; it is seeded before each decision, and
restored after it.
"""

from __future__ import annotations

import json
import logging
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

from palaver.core import PolicyError, need, stable_seed
from palaver.envs.base.env import TextEnv
from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.showdown import Side

Choose = Callable[[str, Mapping[str, Any]], str]
_IGNORED = ("", "t:", "expire", "uhtmlchange", "tempnotify", "win", "tie")


def player(name: str, env: TextEnv, agent: str, seed: int) -> Choose:
    """A player for one game.

    Raises:
        PolicyError: no poke-env, or another environment.
    """
    need(f"poke-env:{name}", "poke-env", error=PolicyError)
    if not isinstance(env, PokemonEnv):
        raise PolicyError(f"poke-env:{name} plays pokemon-v1 only")
    return _Fed(name, env, cast("Side", agent), seed)


class _Fed:
    def __init__(self, name: str, env: PokemonEnv, side: Side, seed: int) -> None:
        from poke_env import AccountConfiguration, player
        from poke_env.battle import Battle

        self._env, self._side, self._seed = env, side, seed
        self._player: Any = getattr(player, name)(
            AccountConfiguration(side, None), battle_format=env.format, start_listening=False, log_level=60
        )
        logger = logging.getLogger("palaver.poke-env")
        logger.setLevel(logging.CRITICAL)
        self._battle: Any = Battle("battle-palaver", side, logger, gen=env.dex.gen)
        self._read_lines = self._num_requests = 0

    def __call__(self, _: str, __: Mapping[str, Any]) -> str:
        battle = self._env.battle
        assert battle is not None
        lines = battle.log(self._side)
        for line in lines[self._read_lines :]:
            parts = line.split("|")
            if len(parts) > 1 and parts[1] not in _IGNORED:
                self._battle.parse_message(parts)
        self._read_lines = len(lines)
        request = json.loads(battle.pool.request_battle(battle, "request", self._side))
        self._battle.parse_request(request)
        self._num_requests += 1
        state = random.getstate()
        random.seed(stable_seed(self._seed, self._num_requests))
        try:
            if self._battle.teampreview:
                first = str(self._player.teampreview(self._battle)).removeprefix("/team ")[:1]
                return self._label(f"team {first}")
            order: Any = self._player.choose_move(self._battle)
            chosen = getattr(order, "order", None)
            for n, mon_data in enumerate(request["side"]["pokemon"], 1):  # nicknames are not our names
                if self._battle.team.get(mon_data["ident"]) is chosen:
                    return self._label(f"switch {n}")
            return str(order.message).removeprefix("/choose ")
        finally:
            random.setstate(state)

    def _label(self, choice: str) -> str:
        legal = self._env.view(self._side)["legal"]
        return next((label for label, words in legal if words == choice), choice)


random_player = partial(player, "RandomPlayer")
max_base_power = partial(player, "MaxBasePowerPlayer")
simple_heuristics = partial(player, "SimpleHeuristicsPlayer")
