"""A matrix game as tables, and its rules: texts and positions in, actions and positions out."""

from __future__ import annotations

import functools
import itertools
import math
import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaver.core import ConfigError

Floats = NDArray[np.float64]
Integers = NDArray[np.intp]
MOST_CELLS = 65_536  # joint actions times states
MOST_STATES = 1_000
MOST_STEPS = 1_000
Parts = dict[str, float]


@dataclass(frozen=True, eq=False, slots=True)
class MatrixGame:
    """Immutable, so copies of an environment share it.

    Axes: N agents, S states, J joint actions in the order of `joints`, the last agent's action changing fastest.

    Attributes:
        title: its name in prompts.
        agents: names of the N agents.
        actions: the actions of each agent.
        states: the S names; a round begins in the first.
        payoffs: (S, J, N), the reward of each agent.
        successor: (S, J), the number of the state that follows; S where the round ends.
        steps: the most turns of a round, 0 without a limit.
        horizon: the most turns that a round can take.
        sizes: the number of actions of each agent.

    Raises:
        ConfigError: the states go in a circle and `steps` is 0.
    """

    title: str
    agents: tuple[str, ...]
    actions: tuple[tuple[str, ...], ...]
    states: tuple[str, ...]
    payoffs: Floats
    successor: Integers
    steps: int = 0
    horizon: int = field(init=False)
    sizes: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(map(len, self.actions)))
        joint = math.prod(self.sizes)
        assert self.payoffs.shape == (len(self.states), joint, len(self.agents))
        assert self.successor.shape == (len(self.states), joint)
        self.payoffs.setflags(write=False)
        self.successor.setflags(write=False)
        longest = _longest(self.successor)
        if not longest and not self.steps:
            raise ConfigError("game: its states go in a circle; give steps, the most turns of a round")
        object.__setattr__(self, "horizon", min(filter(None, (longest, self.steps))))

    def __deepcopy__(self, memo: dict[int, Any]) -> MatrixGame:
        return self

    def joints(self) -> Iterator[tuple[str, ...]]:
        """The J joint actions by name."""
        return itertools.product(*self.actions)

    def index(self, joint: Sequence[int]) -> int:
        """The place of a joint action, given as one number for each agent, among the J."""
        return int(np.ravel_multi_index(tuple(joint), self.sizes))

    def joint(self, index: int) -> tuple[int, ...]:
        """The inverse of `index`."""
        return tuple(int(n) for n in np.unravel_index(index, self.sizes))

    def shared(self) -> MatrixGame:
        """The game whose reward for every agent is the mean of the payoffs."""
        mean = np.repeat(self.payoffs.mean(axis=2, keepdims=True), len(self.agents), axis=2)
        return MatrixGame(self.title, self.agents, self.actions, self.states, mean, self.successor, self.steps)


def _longest(successor: Integers) -> int:
    """Turns of the longest path from the first state to the end; 0 with a cycle.

    successor: (S, J).
    """
    count = len(successor)
    turns = np.zeros(count + 1, dtype=np.intp)  # the last is the end
    for _ in range(count + 1):
        longer = np.append(1 + turns[successor].max(axis=1), 0)
        if np.array_equal(longer, turns):
            return int(turns[0])
        turns = longer
    return 0


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
    return Position(0, game.horizon, at.round + 1) if at.round + 1 < repeats else None


def score(
    game: MatrixGame,
    worst: Floats,
    at: Position,
    joint: Sequence[int] | None,
    forfeit: float | None,
    silent: Sequence[bool],
) -> list[Parts]:
    """Rewards of one turn, by agent.

    `payoff` by the table, or `illegal` where its text named no action.

    Args:
        game: that is played.
        worst: of its solution.
        at: the position before the turn.
        joint: one action number for each agent, drawn where a text named none; None forfeits the round for all.
        forfeit: the reward of an illegal answer; None is the least that was possible: of a forfeited round by its
            rest, else by the state's table.
        silent: of each agent, whether its text named no action.
    """
    if joint is None:
        lost = worst[at.left, at.state] if forfeit is None else [forfeit] * len(game.agents)
        return [{"payoff": 0.0, "illegal": float(penalty)} for penalty in lost]
    least = game.payoffs[at.state].min(axis=0) if forfeit is None else [forfeit] * len(game.agents)
    return [
        {"payoff": 0.0, "illegal": float(least[n])} if silent[n] else {"payoff": float(penalty), "illegal": 0.0}
        for n, penalty in enumerate(game.payoffs[at.state, game.index(joint)])
    ]


def regret(game: MatrixGame, best: Floats, at: Position, joint: Sequence[int] | None, reward: float) -> float:
    """Regret V(s) - (r + V(s')) of a turn against the team's best return, 0 or more.

    Over a round the regrets add up to the best return less the one reached. After a forfeited round V(s') is 0.

    Args:
        game: that is played.
        best: of its solution.
        at: the position before the turn.
        joint: one action number for each agent; None where the round was forfeited.
        reward: mean reward of the turn.
    """
    state = len(game.states) if joint is None else int(game.successor[at.state, game.index(joint)])
    lost = float(best[at.left, at.state] - reward - best[at.left - 1, state])
    return lost if lost > 1e-9 * max(1.0, abs(float(best[at.left, at.state]))) else 0.0
