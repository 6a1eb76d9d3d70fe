"""Battles of a measuring process between players that choose uniformly among legal actions.

Each contender continues where it stopped, so that several are measured in turns; in between it pauses.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import psutil

from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.showdown import shared_pool

TEAMS = "sample"


class PalaverContender:
    """Battles of `pokemon-v1` through its API: `step_together` of many instances.

    Both sides' texts are built and parsed.

    Args:
        format: of the battles.
        battles: at once.
        seed: of teams, dice and choices.

    Attributes:
        finished: battles that were played to their end.
    """

    def __init__(self, format: str, battles: int, seed: int) -> None:
        shared_pool(workers=1)  # there are as many processes like this one as there are cores
        first = PokemonEnv(format, teams=TEAMS)
        self._envs = [first, *(first.fork() for _ in range(battles - 1))]
        self._draw = random.Random(seed)
        self._infos: list[Mapping[str, Mapping[str, Any]]] = [self._reset(env) for env in self._envs]
        self._turns = [0] * battles
        self.finished = 0

    def _reset(self, env: PokemonEnv) -> Mapping[str, Mapping[str, Any]]:
        return env.reset(seed=self._draw.getrandbits(31))[1]

    def play(self, seconds: float) -> int:
        """Continue for about `seconds`; returns the number of simulator turns played."""
        done, until = 0, time.perf_counter() + seconds
        while time.perf_counter() < until:
            done += self._step()
        return done

    def finish(self, battles: int) -> int:
        """Continue until `battles` more are finished; returns the number of turns played."""
        done, wanted = 0, self.finished + battles
        while self.finished < wanted:
            done += self._step()
        return done

    def _step(self) -> int:
        done, chosen = (
            0,
            [
                {agent: self._draw.choice(info["legal_actions"]) for agent, info in infos.items() if info["can_act"]}
                for infos in self._infos
            ],
        )
        steps = PokemonEnv.step_together(self._envs, chosen)
        for n, (env, (_, _, _, _, infos)) in enumerate(zip(self._envs, steps, strict=True)):
            turn = int(infos["p1"]["metrics"].get("turn", self._turns[n]))
            done += turn - self._turns[n]
            over = not env.agents
            self.finished += over
            self._turns[n] = 0 if over else turn
            self._infos[n] = self._reset(env) if over else infos
        return done


def packed_teams(format: str) -> Sequence[str]:
    """Teams of our contender, for the others; empty if the format generates its own."""
    return sorted({team for task in PokemonEnv(format, teams=TEAMS).tasks for team in task["teams"] or ()})


class PettingZoo:
    """Battles of poke-env's `SinglesEnv`, one at a time on a server.

    The observation is left empty, as `SinglesEnv` defines none.

    Args:
        format: of the battles.
        address: of the server's websocket.
        teams: packed; each battle draws two.
        seed: of the choices; poke-env seeds neither teams nor dice.
    """

    def __init__(self, format: str, address: str, teams: Sequence[str], seed: int) -> None:
        from gymnasium.spaces import Box
        from poke_env.environment import SinglesEnv

        class Bare(SinglesEnv):  # type: ignore[misc,unused-ignore]
            def embed_battle(self, _: Any) -> Any:
                return _NOTHING

            def calc_reward(self, _: Any) -> float:
                return 0.0

        self._env: Any = Bare(battle_format=format, **_connection(address, teams, _name("z", seed)))
        self._env.observation_spaces = dict.fromkeys(self._env.possible_agents, Box(0.0, 1.0, (1,), np.float32))
        self._rng = np.random.default_rng(seed)
        self._seen: Mapping[str, Any] = {}
        self._turn = 0

    def play(self, seconds: float) -> int:
        """Continue for about `seconds`; returns the number of simulator turns played."""
        done, until = 0, time.perf_counter() + seconds
        while time.perf_counter() < until:
            if not self._env.agents:
                self._seen, self._turn = self._env.reset()[0], 0
            masks = {agent: np.flatnonzero(seen["action_mask"]) for agent, seen in self._seen.items()}
            self._seen = self._env.step({agent: self._rng.choice(mask) for agent, mask in masks.items()})[0]
            turn = self._env.battle1.turn
            done, self._turn = done + turn - self._turn, turn
        return done


class Websocket:
    """Two of poke-env's `RandomPlayer` on a server, many battles at once in one process.

    Args:
        format: of the battles.
        address: of the server's websocket.
        teams: packed; each battle draws two.
        battles: at once.
        seed: of the names.
    """

    def __init__(self, format: str, address: str, teams: Sequence[str], battles: int, seed: int) -> None:
        from poke_env.concurrency import POKE_LOOP
        from poke_env.player import RandomPlayer

        going = self._going = [False]

        async def later(player: Any, battle: Any) -> Any:
            while not going[0]:
                await asyncio.sleep(0.02)
            return player.choose_random_move(battle)

        class Resting(RandomPlayer):  # type: ignore[misc,unused-ignore]
            def choose_move(self, battle: Any) -> Any:
                return self.choose_random_move(battle) if going[0] else later(self, battle)

        settings = _connection(address, teams, _name("w", seed))
        names = settings.pop("account_configuration1"), settings.pop("account_configuration2")
        self._players: list[Any] = [
            Resting(name, battle_format=format, max_concurrent_battles=battles, **settings) for name in names
        ]
        one, two = self._players
        asyncio.run_coroutine_threadsafe(one.battle_against(two, n_battles=10**6), POKE_LOOP)

    def play(self, seconds: float) -> int:
        """Continue for about `seconds`; returns the number of simulator turns played."""
        before = self._turns()
        self._going[0] = True
        time.sleep(seconds)
        done = self._turns() - before
        self._going[0] = False
        return done

    def _turns(self) -> int:
        return sum(battle.turn for battle in list(self._players[0].battles.values()))


_NOTHING = np.zeros(1, dtype=np.float32)


def _name(letter: str, seed: int) -> str:
    return f"{letter}{seed}x{random.SystemRandom().randrange(10**6)}"


def _connection(address: str, teams: Sequence[str], name: str) -> dict[str, Any]:
    from poke_env import AccountConfiguration, ServerConfiguration
    from poke_env.teambuilder import Teambuilder

    class RandomTeams(Teambuilder):  # type: ignore[misc,unused-ignore]
        def yield_team(self) -> str:
            return random.choice(teams)

    return {
        "account_configuration1": AccountConfiguration(f"{name}a", None),
        "account_configuration2": AccountConfiguration(f"{name}b", None),
        "server_configuration": ServerConfiguration(address, ""),
        "team": RandomTeams() if teams else None,
        "log_level": 40,
        "open_timeout": None,  # both for machines that are busy
        "ping_interval": None,
    }


def _contender(
    kind: str, format: str, battles: int, seed: int, address: str
) -> PalaverContender | PettingZoo | Websocket:
    if kind == "ours":
        return PalaverContender(format, battles, seed)
    teams = packed_teams(format)
    if kind == "pettingzoo":
        return PettingZoo(format, address, teams, seed)
    return Websocket(format, address, teams, battles, seed)


def cpu_seconds(process: psutil.Process) -> float:
    """CPU time of a process and of its living descendants, so far."""
    total = 0.0
    for member in (process, *process.children(recursive=True)):
        try:
            times = member.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def main(kind: str, format: str, battles: int, seed: int, address: str) -> None:
    """Process lines until the input ends."""
    contender, me = _contender(kind, format, battles, seed, address), psutil.Process()
    print("ready", flush=True)
    for line in sys.stdin:
        cpu, began = cpu_seconds(me), time.perf_counter()
        turns = contender.play(float(line))
        played = {"turns": turns, "seconds": time.perf_counter() - began, "cpu": cpu_seconds(me) - cpu}
        print(json.dumps(played), flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
