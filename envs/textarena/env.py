"""A game of TextArena, as an environment.

`palaver.make("textarena/KuhnPoker-v0")` plays any game of [TextArena](https://github.com/LeonGuertler/TextArena) that
can be played without a network, with texts, rules and rewards of TextArena; docs/textarena.md lists them.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from pathlib import Path
from typing import Any

from palaver.core import TaskError
from palaver.envs.base.arguments import whole_number
from palaver.envs.base.env import MAX_LENGTH, StepResult, TextEnv
from palaver.envs.base.tasks import Task, read_tasks
from palaver.envs.textarena.game import Game, PlayedMove
from palaver.envs.textarena.games import MOST_PLAYERS, PREFIX, TURNS, agents, playable
from palaver.envs.textarena.guard import GameError, ReachError

MOST_SEED = 2**32  # numpy's generators take no larger one
_SEEDS = 100_000  # of the games of one `generated:SEED`


class TextArenaEnv(TextEnv):
    """A game of TextArena.

    Args:
        game: id in TextArena's registry, as `KuhnPoker-v0`.
        players: number of players; None is the smallest from two that the game accepts, one where it is for one.
        tasks: `sample` or `generated:SEED:COUNT`, or a file with a whole number `seed` in each row; a slice may follow.
        turns: most moves of an episode, which is then truncated.
        render_mode: `ansi` or None.
        max_length: most characters of an observation or action; of a longer observation the end is kept.

    Raises:
        ConfigError: a value that does not fit, or a game that cannot be played here.
        TaskError: tasks that cannot be read.
    """

    def __init__(
        self,
        game: str,
        players: int | None = None,
        tasks: str | Path = "sample",
        turns: int = TURNS,
        render_mode: str | None = None,
        max_length: int = MAX_LENGTH,
    ) -> None:
        if players is not None:
            whole_number("players", players, 1, MOST_PLAYERS)
        self.num_turns = whole_number("turns", turns, 1, 10_000)
        tried = playable(game, players)
        alone = "fresh" if game.endswith("-train") else "continued"
        self.metadata = {**TextEnv.metadata, "name": f"{PREFIX}{game}", "conversation": alone}  # type: ignore[misc]
        self.id = game
        self.competitive = tried.players > 1
        self.zero_sum = tried.constant_sum
        self.max_return = 1.0 if tried.constant_sum else inf
        self.roles: dict[str, str] = {}
        self.mover = ""
        loaded, _ = read_tasks(tasks, _check_seed, sample=_seeds, fields={"seed": int})
        super().__init__(agents(tried.players), loaded, render_mode=render_mode, max_length=max_length, source=tasks)

    def role(self, agent: str) -> str:
        """Role that the game gives the player, which may be secret."""
        return self.roles.get(agent, agent)

    def initial_observations(self, task: Task) -> Mapping[str, str]:
        """Begin the game with the task's seed.

        Raises:
            GameError: the game cannot be begun with it.
        """
        self.game = Game(self.id)
        self.game.reset(len(self.agents), task["seed"])
        names = enumerate(self.agents)
        self.roles = {agent: self.game.information(player, "role") or agent for player, agent in names}
        observations = self._next()
        self.first_to_act = (self.mover,)
        return observations

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """Make the move of the player whose turn it is."""
        mover = self.mover
        try:
            move = self.game.play(actions[mover])
            observations = self._last() if move.done else {} if move.error else self._next()
        except ReachError as error:
            return StepResult({agent: {"outcome": 0.0} for agent in self.agents}, reason=str(error), unscored=True)
        except GameError as error:
            move, observations = PlayedMove(True, True, str(error)), {}
        over = move.done or bool(move.error)
        ended = over or self.turn + 1 >= self.num_turns
        rewards = self._rewards(mover, move) if over else [0.0] * len(self.agents)
        metrics = {"game_error": float(bool(move.error))}
        if ended and len(rewards) == 2:
            metrics["outcome"] = float((rewards[0] > rewards[1]) - (rewards[0] < rewards[1]))
        return StepResult(
            {agent: {"outcome": reward} for agent, reward in zip(self.agents, rewards, strict=True)},
            observations,
            terminated=over,
            truncated=not over and ended,
            metrics=metrics,
            illegal={mover: int(move.illegal)},
            can_act=() if over else (self.mover,),
            reason=move.error or (self.game.information(0, "reason") if over else ""),
        )

    def _next(self) -> dict[str, str]:
        """The observation of the player who moves next, the end of it if it is long."""
        player, text = self.game.observation()
        self.mover = self.agents[player]
        return {self.mover: text[-self.max_length :]}

    def _last(self) -> dict[str, str]:
        """The messages that are left for each player when the game is over."""
        if self.metadata["conversation"] == "fresh":
            return {}
        return {agent: self.game.remaining(n)[-self.max_length :] for n, agent in enumerate(self.agents)}

    def _rewards(self, mover: str, move: PlayedMove) -> list[float]:
        """The players' rewards; if the game failed, the player who moved loses to the others."""
        if not move.error:
            return self.game.rewards()
        others = len(self.agents) - 1
        return [-1.0 if agent == mover else 1.0 / others for agent in self.agents]


def _seeds(count: int, seed: int) -> list[dict[str, Any]]:
    return [{"id": f"game-{seed}-{n}", "seed": (seed * _SEEDS + n) % MOST_SEED} for n in range(count)]


def _check_seed(task: Task) -> None:
    if not 0 <= task["seed"] < MOST_SEED:
        raise TaskError(f"task {task.id!r}: the field 'seed' must be from 0 to {MOST_SEED - 1}, got {task['seed']}")
