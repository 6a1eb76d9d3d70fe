"""Game as tables: payoffs and successor of every joint action in every state."""

from __future__ import annotations

import itertools
import math
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

    def __post_init__(self) -> None:
        joint = math.prod(map(len, self.actions))
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

    @property
    def sizes(self) -> tuple[int, ...]:
        """The number of actions of each agent."""
        return tuple(map(len, self.actions))

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
