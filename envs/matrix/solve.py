"""Exact values of a game, by enumeration of joint actions and backward induction over turns.

"The team's" reward is the mean over agents, as in `Episode.team_return`. Backward induction for the joint
optimum is that of R. Bellman, Dynamic Programming (1957), the team taken as one decision maker:
Q_l(s, u) = r(s, u) + γ V_{l-1}(s'), V_l(s) = max_u Q_l(s, u), with l turns left in the round.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from palaver.envs.base.exact import Chances, ExactGame
from palaver.envs.matrix.rules import Floats, MatrixGame, action_index


@dataclass(frozen=True, eq=False, slots=True)
class Solution:
    """Values of the undiscounted game, by turns left in the round and state.

    The first axis is 0 to the horizon.

    Attributes:
        game: what is solved.
        best: (horizon + 1, S + 1), the largest remaining return of the team in this round; the last state is the end.
        worst: (horizon + 1, S + 1, N), the smallest remaining return of each agent in this round.
    """

    game: MatrixGame
    best: Floats
    worst: Floats

    def __deepcopy__(self, memo: dict[int, Any]) -> Solution:
        return self

    def optimal(self, state: int, left: int) -> tuple[int, ...]:
        """The first of the joint actions that are best for the team, one number for each agent."""
        return self.game.joint(int(np.argmax(joint_values(self.game, self.best, state, left))))


def solve(game: MatrixGame) -> Solution:
    """Both tables of a game."""
    return Solution(game, best_values(game), worst_values(game))


def best_values(game: MatrixGame, discount: float = 1.0, after: float = 0.0) -> Floats:
    """V_l(s), shape (horizon + 1, S + 1).

    It is the best discounted return of the team with l turns left in the round.

    Args:
        game: to be solved.
        discount: γ, the factor of a reward one turn later.
        after: value of the end of the round.
    """
    team = game.payoffs.mean(axis=2)  # (S, J)
    values = np.full((game.horizon + 1, len(game.states) + 1), after)
    for left in range(1, game.horizon + 1):
        values[left, :-1] = (team + discount * values[left - 1][game.successor]).max(axis=1)
    return values


def worst_values(game: MatrixGame) -> Floats:
    """Least undiscounted return of each agent, shape (horizon + 1, S + 1, N).

    The minimum is over the actions of all.
    """
    values = np.zeros((game.horizon + 1, len(game.states) + 1, len(game.agents)))
    for left in range(1, game.horizon + 1):
        values[left, :-1] = (game.payoffs + values[left - 1][game.successor]).min(axis=1)
    return values


def joint_values(game: MatrixGame, best: Floats, state: int, left: int, discount: float = 1.0) -> Floats:
    """Q_l(s, u) of every joint action u, shape (J,).

    Args:
        game: that is played.
        best: its `best_values` with the same discount.
        state: number of the state.
        left: turns left in the round, this one included.
        discount: γ.
    """
    values: Floats = game.payoffs[state].mean(axis=1) + discount * best[left - 1][game.successor[state]]
    return values


def max_return(game: MatrixGame, repeats: int = 1, discount: float = 1.0) -> float:
    """The best discounted return of the team in `repeats` successive rounds.

    With a discount the length of a round matters for what follows it, so the rounds are solved from the last one back.
    """
    if discount == 1.0:
        return repeats * float(best_values(game)[-1, 0])
    worth = 0.0
    for _ in range(repeats):
        worth = float(best_values(game, discount, after=worth)[-1, 0])
    return worth


def least(game: MatrixGame, worst: Floats) -> float:
    """The smallest remaining return of any agent in a round, over all reachable states."""
    reachable, lowest = {0}, math.inf
    for left in range(game.horizon, 0, -1):
        lowest = min([lowest, *(float(worst[left, state].min()) for state in reachable)])
        reachable = {int(state) for state in np.unique(game.successor[sorted(reachable)]) if state < len(game.states)}
        if not reachable:
            break
    return lowest


def expected_return(
    game: MatrixGame, chances: Mapping[str, Sequence[Sequence[float]]], discount: float = 1.0
) -> Floats:
    """Exact return of one round for each agent, shape (N,).

    The agents draw their actions independently.

    Args:
        game: that is played.
        chances: state -> for each agent the probabilities of its actions.
        discount: γ.
    """
    joint = np.stack([_product(chances[state]) for state in game.states])  # (S, J)
    values = np.zeros((len(game.states) + 1, len(game.agents)))
    for _ in range(game.horizon):
        values[:-1] = np.einsum("sj,sjn->sn", joint, game.payoffs + discount * values[game.successor])
    start: Floats = values[0]
    return start


def best_response_return(game: MatrixGame, chances: Mapping[str, Sequence[Sequence[float]]], agent: int) -> float:
    """Largest return of one round that an agent can reach against the others' mixed policies.

    Args:
        game: that is played.
        chances: state -> for each agent the probabilities of its actions; those of `agent` are not looked at.
        agent: its number.
    """
    own_actions = range(game.sizes[agent])
    values = np.zeros(len(game.states) + 1)
    for _ in range(game.horizon):
        totals = game.payoffs[:, :, agent] + values[game.successor]  # (S, J)
        by_action = [
            [
                _product([*others[:agent], np.eye(len(own_actions))[action], *others[agent + 1 :]]) @ row
                for action in own_actions
            ]
            for others, row in zip((list(chances[state]) for state in game.states), totals, strict=True)
        ]
        values[:-1] = np.max(by_action, axis=1)
    return float(values[0])


def nash_conv(game: MatrixGame, chances: Mapping[str, Sequence[Sequence[float]]]) -> float:
    """NashConv of mixed policies: the sum over agents of a best response's gain in a round."""
    values = expected_return(game, chances)
    return math.fsum(best_response_return(game, chances, n) - float(values[n]) for n in range(len(game.agents)))


def exact_game(game: MatrixGame, prompts: Sequence[Sequence[str]]) -> ExactGame:
    """A game of one state, as information sets.

    Args:
        game: of one round and one state.
        prompts: task -> the prompt of each agent; NashConv is the mean over the tasks.
    """
    agents = len(game.agents)

    def mean_nash_conv(chances: Chances) -> float:
        rounds = [chances[n : n + agents] for n in range(0, len(chances), agents)]
        return math.fsum(nash_conv(game, {game.states[0]: each}) for each in rounds) / len(rounds)

    def mixture(several: Sequence[Chances]) -> Chances:
        """Means: an agent decides once."""
        return [np.mean(chances, axis=0).tolist() for chances in zip(*several, strict=True)]

    flat = tuple(prompt for each in prompts for prompt in each)
    rounds = len(prompts)
    return ExactGame(game.agents * rounds, flat, game.actions * rounds, action_index, mean_nash_conv, mixture)


def _product(chances: Sequence[Sequence[float] | Floats]) -> Floats:
    """Probabilities (J,) of the joint actions from those of each agent's."""
    joint = np.ones(1)
    for chances_of_agent in chances:
        joint = np.multiply.outer(joint, np.asarray(chances_of_agent, dtype=np.float64)).ravel()
    return joint
