"""The reward of a matrix game. Pure: numbers in, named components out."""

from __future__ import annotations

from collections.abc import Sequence

from palaver.envs.matrix.rules import Position
from palaver.envs.matrix.solve import Solution

Parts = dict[str, float]


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
