"""Battles of our players on a server against poke-env's players, each other, or challengers."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from palaver.agents.llm.model.options import ModelOptions
from palaver.benchmarks.showdown_ladder.player import ServerSide, decider
from palaver.core import ConfigError, PalaverError, PolicyError, Sampling, need
from palaver.envs.pokemon import teams
from palaver.envs.pokemon.showdown import BattlePool, ShowdownError
from palaver.envs.pokemon.showdown.server import Server

ANYONE = "anyone"
PREFIX = "poke-env:"


@dataclass(frozen=True)
class Match:
    """Settings of battles on a server.

    Attributes:
        player: of ours.
        opponent: another of ours, `poke-env:CLASS`, or `anyone` for any challenger.
        format: of the battles.
        battles: how many.
        parallel: at once.
        teamset: of both players, as in `pokemon-v1`.
        server: address of a running one (`ws://127.0.0.1:8000/showdown/websocket`); empty to start one.
        name: of our player on the server.
        seed: of choices and team draws; the server has its own random numbers.

    Raises:
        ConfigError: a number below 1, or `anyone` without the address of a server.
    """

    player: str
    opponent: str = f"{PREFIX}SimpleHeuristicsPlayer"
    format: str = "gen1ou"
    battles: int = 10
    parallel: int = 5
    teamset: str = "sample"
    server: str = ""
    name: str = "palaver"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.battles < 1 or self.parallel < 1:
            raise ConfigError(f"battles must be 1 or more, got {self.battles}, {self.parallel} at once")
        if not self.name.isalnum() or len(self.name) > 15:
            raise ConfigError("a name on the server is 1 to 15 letters and digits")
        if self.opponent == ANYONE and not self.server:
            raise ConfigError("to be challenged, name a running server; start one with: palaver pokemon serve")


def required() -> None:
    """Raise an error if poke-env is missing.

    Raises:
        ConfigError: it is not installed; the message has the remedy.
    """
    need("a player on a server", "poke-env")


def run(
    match: Match, sampling: Sampling, options: ModelOptions, report: Callable[[str], None] = lambda _: None
) -> dict[str, Any]:
    """Play, and count our player's wins.

    Returns:
        won, lost, tied, battles, decisions, illegal, and `error`, empty unless a player of ours failed.

    Raises:
        ConfigError: no poke-env.
        PolicyError: no such player.
        ShowdownError: no Node.js, no simulator, no such format, or no server.
    """
    required()
    if match.server:
        _reachable(match.server)
    with ExitStack() as stack:
        pool = stack.enter_context(BattlePool(1))
        packed = [team.packed for team in teams.load(match.teamset, match.format, pool).teams]
        side = ServerSide(match.format, pool, decider(match.player, match.format, pool, match.seed, sampling, options))
        opponent = _opponent(match, pool, sampling, options)
        address = match.server or stack.enter_context(Server()).address
        report(f"server: {address}")
        ours = _seated(side, **_player_options(match, address, match.name, packed, match.seed))
        if opponent is None:
            report(f"{match.name} waits for {match.battles} challenges in {match.format}")
            _play(ours.accept_challenges(None, match.battles), ours)
        else:
            foe = opponent(**_player_options(match, address, f"{match.name}foe", packed, match.seed + 1))
            _play(ours.battle_against(foe, n_battles=match.battles), ours, foe)
        return {
            "won": ours.n_won_battles,
            "lost": ours.n_lost_battles,
            "tied": ours.n_tied_battles,
            "battles": ours.n_finished_battles,
            "decisions": side.decisions,
            "illegal": side.illegal,
            "error": ours.error,
        }


def _play(playing: Any, *players: Any) -> None:
    """Play until all battles are over, or a connection is closed."""
    done = asyncio.run_coroutine_threadsafe(playing, players[0].ps_client.loop)
    while not done.done():
        if any(player.ps_client._listening_coroutine.done() for player in players):
            done.cancel()
            raise ShowdownError("the connection with the server ended before the battles did")
        time.sleep(0.05)
    done.result(0.0)
    for player in players:
        asyncio.run_coroutine_threadsafe(player.ps_client.stop_listening(), player.ps_client.loop).result(10.0)


def _reachable(address: str) -> None:
    """Refuse an address without a server."""
    try:
        parts = urlsplit(address)
        where = parts.hostname or "", parts.port or 80
    except ValueError:
        where = "", 0
    if not where[0] or parts.scheme not in ("ws", "wss"):
        raise ConfigError(f"a server's address is like ws://127.0.0.1:8000/showdown/websocket, got {address!r:.80}")
    try:
        socket.create_connection(where, timeout=10.0).close()
    except OSError as error:
        raise ShowdownError(
            f"no server answers at {address} ({error}); start one with: palaver pokemon serve"
        ) from error


def _opponent(match: Match, pool: BattlePool, sampling: Sampling, options: ModelOptions) -> Callable[..., Any] | None:
    """Return a factory of the other player; None for any challenger."""
    if match.opponent == ANYONE:
        return None
    if match.opponent.startswith(PREFIX):
        return poke_env_player(match.opponent)
    side = ServerSide(
        match.format, pool, decider(match.opponent, match.format, pool, match.seed + 1, sampling, options)
    )
    return lambda **given: _seated(side, **given)


def poke_env_player(name: str) -> Callable[..., Any]:
    """A class of poke-env's players by its name, `poke-env:SimpleHeuristicsPlayer`.

    Raises:
        PolicyError: poke-env has no such player.
    """
    from poke_env import player as found

    known = [n for n in dir(found) if n.endswith("Player") and n != "Player"]
    if name.removeprefix(PREFIX) not in known:
        raise PolicyError(f"poke-env has no player {name.removeprefix(PREFIX)!r:.40}. It has: {', '.join(known)}")
    player_class: Callable[..., Any] = getattr(found, name.removeprefix(PREFIX))
    return player_class


def _player_options(match: Match, address: str, name: str, packed: Sequence[str], seed: int) -> dict[str, Any]:
    """Arguments of a player on the server."""
    from poke_env import AccountConfiguration, ServerConfiguration
    from poke_env.teambuilder import Teambuilder

    draw = random.Random(seed)

    class RandomTeams(Teambuilder):  # type: ignore[misc,unused-ignore]
        def yield_team(self) -> str:
            return draw.choice(packed)

    return {
        "account_configuration": AccountConfiguration(name, None),
        "server_configuration": ServerConfiguration(address, ""),
        "battle_format": match.format,
        "max_concurrent_battles": match.parallel,
        "team": RandomTeams() if packed else None,
        "log_level": 60,  # errors are raised here
        "open_timeout": 60.0,
        "ping_interval": None,  # a language model may think longer than a ping waits
    }


def _seated(side: ServerSide, **given: Any) -> Any:
    """Make a player of poke-env that passes protocol lines to a `ServerSide` for its choices."""
    from poke_env.player import Player

    class LadderPlayer(Player):  # type: ignore[misc,unused-ignore]
        def __init__(self) -> None:
            self.error = ""
            self._room_lines: dict[str, list[str]] = {}
            self._room_requests: dict[str, Mapping[str, Any]] = {}
            self._seating = asyncio.Lock()
            super().__init__(**given)

        async def _handle_battle_message(self, split_messages: list[list[str]]) -> None:
            room = split_messages[0][0].removeprefix(">")
            for parts in split_messages[1:]:
                if len(parts) > 2 and parts[1] == "request":
                    if text := "|".join(parts[2:]):
                        self._room_requests[room] = json.loads(text)
                elif len(parts) > 1:
                    self._room_lines.setdefault(room, []).append("|".join(parts))
            await super()._handle_battle_message(split_messages)

        def choose_move(self, battle: Any) -> Any:
            return self._chosen(battle.battle_tag)

        def teampreview(self, battle: Any) -> Any:
            return self._previewed(battle.battle_tag)

        async def _previewed(self, room: str) -> str:
            return str((await self._chosen(room)).message)

        async def _chosen(self, room: str) -> Any:
            lines, request = self._room_lines.pop(room, []), self._room_requests.pop(room, None)
            if request is None:  # a repeated request that was answered already
                return _Words("/choose default")
            async with self._seating:
                try:
                    return _Words(f"/choose {await asyncio.to_thread(side.choose, room, lines, request)}")
                except PalaverError as error:  # the battle continues, the result has the error
                    self.error = str(error)
                    return _Words("/choose default")

        def _battle_finished_callback(self, battle: Any) -> None:
            side.leave(battle.battle_tag)

    return LadderPlayer()


@dataclass(frozen=True)
class _Words:
    """A choice in the simulator's syntax, as poke-env sends it."""

    message: str
