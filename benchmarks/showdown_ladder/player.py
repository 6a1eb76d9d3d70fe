"""Player of ours in a battle on a server: maps the protocol lines of its side to choices."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.make_policy import make_policy, parse_policy
from palaver.core import ConfigError, Message, PolicyError, Request, Sampling, stable_seed
from palaver.envs.pokemon import rules, vector
from palaver.envs.pokemon.players.registry import HEURISTICS
from palaver.envs.pokemon.showdown import BattlePool, Side, SideView, dex

# (battle, the side's information, its text form, turn) -> an action in free text
Decide = Callable[[str, SideView, str, int], str]
DEFAULT = "default"  # which the simulator always accepts
GAMES = 256  # battles in a net's memory; the oldest is assumed to be over


def decider(
    name: str,
    format: str,
    pool: BattlePool,
    seed: int,
    sampling: Sampling | None = None,
    options: ModelOptions | None = None,
) -> Decide:
    """Make a player: a heuristic, a battle net (`net:FOLDER`), or a policy.

    A policy is one of `palaver evaluate --team`, for one agent.

    Raises:
        PolicyError: there is no such player, or one that cannot play on a server.
        CheckpointError: there is no valid net.
        ShowdownError: no such format.
    """
    if name in HEURISTICS:
        rule, facts = HEURISTICS[name], dex.load(pool.request([["format", format]])[0]["gen"])
        drawn: dict[str, random.Random] = {}

        def follow(battle: str, view: SideView, _: str, __: int) -> str:
            return rule(view, facts, drawn.setdefault(battle, random.Random(stable_seed(seed, battle))))

        return follow
    if name in ("oracle@1", "search@1"):
        raise PolicyError(f"{name} tries its actions in copies of the battle, and there are none of one on a server")
    if parse_policy(name).kind == "net":
        return _net(name, format, pool, seed)
    policy, how, counter = make_policy(name, options=options or ModelOptions()), sampling or Sampling(), [0]

    def answer(battle: str, _: SideView, text: str, __: int) -> str:
        counter[0] += 1
        decision_seed = stable_seed(seed, battle, counter[0])
        return policy.act([Request("p1", (Message("user", text),), (decision_seed,), how)])[0][0].text

    return answer


def _net(name: str, format: str, pool: BattlePool, seed: int) -> Decide:
    """Make a battle net, with the same inputs as in the arena."""
    from palaver.agents.battle_net.player import GameState, NetPlayer, TurnFeatures

    _, folder, heat = parse_policy(name)
    player, about = NetPlayer.load(folder, heat), pool.request([["format", format]])[0]
    facts = dex.load(about["gen"])
    games: dict[str, tuple[GameState, vector.FeatureHistory]] = {}

    def choose(battle: str, view: SideView, _: str, turn: int) -> str:
        if battle not in games:
            games[battle] = player.begin(stable_seed(seed, battle)), vector.FeatureHistory(facts, about["id"])
            while len(games) > GAMES:
                del games[next(iter(games))]
        game, seen = games[battle]
        words, numbers = seen.look(turn, view)
        slots = vector.slots(view)
        return slots[player.decide([TurnFeatures(game, words, numbers, [bool(label) for label in slots])])[0]]

    return choose


class ServerSide:
    """One side of battles on a server.

    Args:
        format: of the battles.
        pool: of one process, which follows the battles.
        decide: the player.

    Attributes:
        decisions: that were made.
        illegal: answers that were not legal; one without an action is replaced by a random one, see `rules.choose`.
    """

    def __init__(self, format: str, pool: BattlePool, decide: Decide) -> None:
        self.format: str = pool.request([["format", format]])[0]["id"]
        self._pool, self._decide = pool, decide
        self._watched: dict[str, str] = {}  # room -> the pool's id of this side of its battle
        self.decisions = self.illegal = 0

    def choose(self, room: str, lines: Sequence[str], request: Mapping[str, Any]) -> str:
        """Return the choice for a request, in the simulator's syntax.

        Args:
            room: the battle's.
            lines: of the protocol that this side received since the last call.
            request: that it must answer.

        Raises:
            ConfigError: a request that is not Showdown's.
        """
        try:
            side = cast("Side", request["side"]["id"])
        except (KeyError, TypeError) as error:
            raise ConfigError("the server sent a request that names no side") from error
        operations: list[list[Any]] = []
        if room not in self._watched:
            self._watched[room] = f"{side} in {room}"  # another `ServerSide` of the pool may have the other side
            operations.append(["watch", self._watched[room], side, self.format])
        name = self._watched[room]
        commands = [*operations, ["hear", name, list(lines), dict(request)], ["tell", name]]
        state, text = self._pool.request(commands)[-2:]
        view: SideView = state["view"]
        legal = dict(view["legal"])
        if not legal:
            return DEFAULT
        decision = rules.choose(self._decide(room, view, text, state["turn"]), legal, room, self.decisions)
        self.decisions += 1
        self.illegal += not decision.legal
        return decision.choice

    def leave(self, room: str) -> None:
        """Forget a battle that is over."""
        if room in self._watched:
            self._pool.request([["forget", self._watched.pop(room)]])
