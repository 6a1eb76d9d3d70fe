"""Assignment of scores to agents and turns.

Pure; see also `shaping.py` and `reward_scheme.py`. Axes: T turns, N agents. A score is a share of the most possible: 1
is right, 0 wrong, None where an agent was not scored. `Scores` holds v[t][i], the score of agent i's text at turn t.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

Row = Sequence[float | None]  # (N,)
Scores = Sequence[Row]  # (T, N)
Who = Literal["own", "mean", "sum", "max", "last", "aggregator"]
When = Literal["each", "last", "accumulated", "influence"]


def shared(own_scores: Row, answers: Row, standing: float | None, who: Who) -> list[float | None]:
    """Score (N,) that each agent is answerable for at one turn.

    `own_scores`: its own score; `mean`, `sum`, `max` of the answers of the turn; `last`: the answer of the last agent
    that answered; `aggregator`: the team's current answer. All but `own_scores` are the same for every agent.

    Args:
        own_scores: scores of the turn.
        answers: the same where an agent answered the task, None for verdicts.
        standing: the score of the team's answer if this turn gave one, else None.
        who: the choice.
    """
    if who == "own":
        return list(own_scores)
    given = [value for value in answers if value is not None]
    if who == "aggregator":
        value = standing
    elif not given:
        value = None
    elif who == "mean":
        value = sum(given) / len(given)
    elif who == "sum":
        value = sum(given)
    else:
        value = max(given) if who == "max" else given[-1]
    return [value] * len(own_scores)


def per_turn(answerable: Scores) -> list[list[float]]:
    """R_i^t = w_i^t: every turn has its own reward. (T, N) -> (T, N), 0 where there is no score."""
    return [[0.0 if value is None else value for value in row] for row in answerable]


def last(answerable: Scores) -> list[list[float]]:
    """R_i^T = the newest w_i^t that there is, and 0 before: only the end is rewarded.

    (T, N) -> (T, N).
    """
    rewards = [[0.0] * len(row) for row in answerable]
    for agent in range(len(rewards[-1])):
        known = [row[agent] for row in answerable]
        rewards[-1][agent] = next((value for value in reversed(known) if value is not None), 0.0)
    return rewards


def accumulated(answerable: Scores) -> list[list[float]]:
    """R_i^t = sum over k >= t of w_i^k, without discount. (T, N) -> (T, N).

    A turn's reward counts all that follows.
    """
    rewards = per_turn(answerable)
    for turn in range(len(rewards) - 2, -1, -1):
        rewards[turn] = [now + later for now, later in zip(rewards[turn], rewards[turn + 1], strict=True)]
    return rewards


def influence(own_scores: Scores, answerable: Scores, discount: float) -> list[list[float]]:
    """The influence-aware score of MAPoRL, Park et al., arXiv:2502.18439: (T, N) -> (T, N).

        R_i^t = [v_i^t + sum over k > t of g^(k-t) w_i^k] / sum over k >= t of g^(k-t)

    v is the own score, w the score the agent is answerable for later: the team's mean (`who: mean`) or its own (`who:
    own`). A turn without a score is left out of both sums, as is the own score of an agent that only talked.

    Args:
        own_scores: v.
        answerable: w.
        discount: g in [0, 1].
    """
    rewards = []
    for turn, row in enumerate(own_scores):
        rewards.append([0.0] * len(row))
        for agent, value in enumerate(row):
            terms = [(1.0, value)]
            terms += [(discount ** (k - turn), answerable[k][agent]) for k in range(turn + 1, len(own_scores))]
            known = [(weight, score) for weight, score in terms if score is not None]
            total = sum(weight for weight, _ in known)
            if total > 0:
                rewards[-1][agent] = sum(weight * score for weight, score in known) / total
    return rewards
