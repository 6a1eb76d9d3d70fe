"""The rules of a matrix game. Pure: texts and positions in, actions and positions out."""

from __future__ import annotations

import functools
import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from palaver.envs.matrix.solve import Solution
from palaver.envs.matrix.table import MatrixGame

Parts = dict[str, float]


@dataclass(frozen=True, slots=True)
class Position:
    """Position in a round.

    Attributes:
        state: number of the state.
        left: turns left in the round, this one included.
        round: of the episode, from 0.
    """

    state: int
    left: int
    round: int = 0


@dataclass(frozen=True, slots=True)
class Tally:
    """Score of an episode so far: the illegal answers and the return of each agent."""

    illegal: tuple[int, ...]
    returns: tuple[float, ...]

    @classmethod
    def of(cls, agents: int) -> Tally:
        """Return the tally of so many agents before the first turn."""
        return cls((0,) * agents, (0.0,) * agents)

    def add(self, chosen: Sequence[int | None], rewards: Sequence[float]) -> Tally:
        """Return the tally after a turn."""
        wrong = tuple(count + (n is None) for count, n in zip(self.illegal, chosen, strict=True))
        return Tally(wrong, tuple(sum(pair) for pair in zip(self.returns, rewards, strict=True)))

    def outcome(self) -> float:
        """Return 1 if the first of two agents is ahead, -1 if the second is.

        Fewer illegal answers count first, then the return.

        >>> Tally((1, 0), (5.0, 0.0)).outcome(), Tally((2, 2), (5.0, 0.0)).outcome(), Tally.of(2).outcome()
        (-1.0, 1.0, 0.0)
        """
        gap = float(self.illegal[1] - self.illegal[0]) or self.returns[0] - self.returns[1]
        return 0.0 if abs(gap) < 1e-9 else math.copysign(1.0, gap)


def fold(text: str) -> str:
    """As texts are compared: compatible characters made one (Unicode NFKC), then without case.

    >>> fold("ＲＥＤ"), fold("Straße")
    ('red', 'strasse')
    """
    return unicodedata.normalize("NFKC", text).casefold()


def action_index(text: str, actions: Sequence[str]) -> int | None:
    """Index of the action that a text names, None if it names none.

    It is the first that occurs in the text as a whole word, whatever the case: between letters or digits of other words
    nothing is found, while punctuation and underscores part words. A text that is a name, with any white space around
    it, so names that action.

    >>> [action_index(text, ("red", "green")) for text in (" RED ", "**Green**, not red.", "redder", "")]
    [0, 1, None, None]
    """
    match = _pattern(tuple(actions)).search(fold(text))
    return None if match is None else [fold(action) for action in actions].index(match[0])


@functools.lru_cache(maxsize=1024)
def _pattern(actions: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(re.escape(fold(action)) for action in actions)})(?![^\W_])")


def completed(chosen: Sequence[int | None], sizes: Sequence[int], rng: np.random.Generator) -> list[int]:
    """Return the joint action, with a random one for an agent that named none.

    All actions are equally likely.

    Args:
        chosen: the number of each agent's action, None where it named none.
        sizes: how many each has.
        rng: of the draws.
    """
    return [int(rng.integers(size)) if n is None else n for n, size in zip(chosen, sizes, strict=True)]


def begin(game: MatrixGame, round: int = 0) -> Position:
    """The start of a round."""
    return Position(0, game.horizon, round)


def advance(game: MatrixGame, at: Position, joint: Sequence[int] | None, repeats: int) -> Position | None:
    """The position after a joint action; None when the last round is over.

    Args:
        game: that is played.
        at: the position before.
        joint: one action number for each agent; None forfeits the round.
        repeats: rounds in an episode.
    """
    if joint is not None and at.left > 1:
        state = int(game.successor[at.state, game.index(joint)])
        if state < len(game.states):
            return Position(state, at.left - 1, at.round)
    return begin(game, at.round + 1) if at.round + 1 < repeats else None


def score(
    solution: Solution, at: Position, joint: Sequence[int] | None, forfeit: float | None, silent: Sequence[bool]
) -> list[Parts]:
    """Rewards of one turn, by agent.

    `payoff` by the table, or `illegal` where its text named no action.

    Args:
        solution: of the game.
        at: the position before the turn.
        joint: one action number for each agent, drawn where a text named none; None forfeits the round for all.
        forfeit: the reward of an illegal answer; None is the least that was possible: of a forfeited round by its
            rest, else by the state's table.
        silent: of each agent, whether its text named no action.
    """
    game = solution.game
    if joint is None:
        lost = solution.worst[at.left, at.state] if forfeit is None else [forfeit] * len(game.agents)
        return [{"payoff": 0.0, "illegal": float(penalty)} for penalty in lost]
    least = game.payoffs[at.state].min(axis=0) if forfeit is None else [forfeit] * len(game.agents)
    return [
        {"payoff": 0.0, "illegal": float(least[n])} if silent[n] else {"payoff": float(penalty), "illegal": 0.0}
        for n, penalty in enumerate(game.payoffs[at.state, game.index(joint)])
    ]


def regret(solution: Solution, at: Position, joint: Sequence[int] | None, reward: float) -> float:
    """Regret V(s) - (r + V(s')) of a turn against the team's best return, 0 or more.

    Over a round the regrets add up to the best return less the one reached. After a forfeited round V(s') is 0.

    Args:
        solution: of the game.
        at: the position before the turn.
        joint: one action number for each agent; None where the round was forfeited.
        reward: mean reward of the turn.
    """
    game = solution.game
    state = len(game.states) if joint is None else int(game.successor[at.state, game.index(joint)])
    lost = float(solution.best[at.left, at.state] - reward - solution.best[at.left - 1, state])
    return lost if lost > 1e-9 * max(1.0, abs(float(solution.best[at.left, at.state]))) else 0.0
