"""Assignment of scores to agents and turns.

Pure; see also `reward_scheme.py`. Axes: T turns, N agents. A score is a share of the most possible: 1
is right, 0 wrong, None where an agent was not scored. `Scores` holds v[t][i], the score of agent i's text at turn t.

The terms for improvement and influence are added to scores. Sources: MARTI is the repository TsinghuaC3I/MARTI, UMAD
(MAVERL) the repository qiaodan-cuhk/UMAD, MAPoRL Park et al., arXiv:2502.18439. An agent is right where its score is
above one half; a mean of exactly one half is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Literal

Row = Sequence[float | None]  # (N,)
Scores = Sequence[Row]  # (T, N)
Who = Literal["own", "mean", "sum", "max", "last", "aggregator"]
When = Literal["each", "last", "accumulated", "influence"]
RIGHT = 0.5
Earlier = Literal["own", "all"]
_COMBINED: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": lambda given: sum(given) / len(given),
    "sum": sum,
    "max": max,
    "last": lambda given: given[-1],
}


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
    if who == "aggregator":
        return [standing] * len(own_scores)
    given = [value for value in answers if value is not None]
    return [_COMBINED[who](given) if given else None] * len(own_scores)


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


def earlier_mean(scores: Scores, turn: int, agent: int, earlier: Earlier) -> float | None:
    """Q: the mean of the scores of earlier turns; None if there are none.

    The scores are the agent's own, or those of all.
    """
    known = [
        value
        for row in scores[:turn]
        for index, value in enumerate(row)
        if value is not None and (earlier == "all" or index == agent)
    ]
    return sum(known) / len(known) if known else None


def margin(scores: Scores, weight: float, earlier: Earlier) -> list[list[float]]:
    """weight * (R - Q): the gain of a turn over the earlier ones, MARTI's `margin`.

    Q as `earlier_mean`. The first turn of an agent has no Q and gains nothing.
    """
    return _bonuses(scores, earlier, lambda r, q: weight * (r - q))


def quality(scores: Scores, weight: float, earlier: Earlier) -> list[list[float]]:
    """weight * (Q R - (1 - Q)(1 - R)) = weight * (Q + R - 1): MARTI's `quality`.

    Staying right is rewarded, staying wrong penalised.
    """
    return _bonuses(scores, earlier, lambda r, q: weight * (q * r - (1 - q) * (1 - r)))


def outcome(scores: Scores, weight: float) -> list[list[float]]:
    """weight * the agent's newest score: MARTI's `with_outcome`.

    It is given at every turn before the one where it was scored.
    """
    added = [[0.0] * len(row) for row in scores]
    for agent in range(len(scores[0]) if scores else 0):
        turns = [turn for turn, row in enumerate(scores) if row[agent] is not None]
        for turn in turns[:-1]:
            added[turn][agent] = weight * (scores[turns[-1]][agent] or 0.0)
    return added


def influence_sign(scores: Scores, step: float) -> list[list[float]]:
    """+step where the others' mean score rises with the next turn, -step where it falls.

    0 where it is unchanged. The influence reward of UMAD: sign(mean over j != i of (v_j^(t+1) - v_j^t)) * step, from
    the others' own scores, not from the team's, whose sign would mix in the agent's own change.
    """
    added = [[0.0] * len(row) for row in scores]
    for turn, (now, then) in enumerate(pairwise(scores)):
        for agent in range(len(now)):
            change = [
                after - before
                for index, (before, after) in enumerate(zip(now, then, strict=True))
                if index != agent and before is not None and after is not None
            ]
            total = sum(change)
            if now[agent] is not None and abs(total) > 1e-12:
                added[turn][agent] = step if total > 0 else -step
    return added


def incentive(scores: Scores, alpha: Sequence[float]) -> list[list[float]]:
    """MAPoRL's incentives alpha = (a0, a1, a2, a3), arXiv:2502.18439, in the sense intended.

    For the own change, at every turn but the first: wrong to right adds a0 if the others were right before (it was
    persuaded), a1 if they were wrong (it found out itself); right to wrong takes away the same.
    For the influence, at every turn but the last: the others turning right with the next turn adds a3 if the own answer
    was right as well, else a2; the others turning wrong takes away a3 if the own answer was wrong as well, else a2. The
    released code has these two signs the other way round, and so rewards misleading.

    "The others" are right if their mean score is above one half.

    Args:
        scores: v.
        alpha: the four weights.
    """
    persuaded, alone, against, agreeing = alpha
    added = [[0.0] * len(row) for row in scores]
    for turn, (now, then) in enumerate(pairwise(scores)):
        for agent in range(len(now)):
            before, after = now[agent], then[agent]
            crowd, next_crowd = _others(now, agent), _others(then, agent)
            if before is not None and after is not None and crowd is not None:
                weight = persuaded if crowd else alone
                added[turn + 1][agent] += weight * ((after > RIGHT) - (before > RIGHT))
            if before is not None and crowd is not None and next_crowd is not None:
                weight = agreeing if (before > RIGHT) == next_crowd else against
                added[turn][agent] += weight * (next_crowd - crowd)
    return added


def _others(row: Row, agent: int) -> bool | None:
    """Return whether the others are right; None if none of them was scored."""
    known = [value for index, value in enumerate(row) if index != agent and value is not None]
    return sum(known) / len(known) > RIGHT if known else None


def _bonuses(scores: Scores, earlier: Earlier, bonus: Callable[[float, float], float]) -> list[list[float]]:
    added = [[0.0] * len(row) for row in scores]
    for turn, row in enumerate(scores):
        for agent, value in enumerate(row):
            before = earlier_mean(scores, turn, agent, earlier)
            if value is not None and before is not None:
                added[turn][agent] = bonus(value, before)
    return added
