"""Accuracy of a reward model on pairs, with its interval. Pure functions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import expit

from palaver.utils.stats.intervals import over_tasks


@dataclass(frozen=True, slots=True)
class Quality:
    """Metrics of a reward model on a set of pairs.

    Attributes:
        accuracy: share of the pairs whose better answer has the higher score; equal scores are wrong.
        low: lower end of the 95 % bootstrap interval over tasks, since the pairs of one are no independent evidence;
            None for one task.
        high: upper end, likewise.
        pairs: how many.
        tasks: of how many tasks.
        margin: mean of score of the better less score of the worse.
        loss: mean of -log sigmoid of that difference.
        longer: share of the pairs whose better answer is the longer one; what length alone would reach.
    """

    accuracy: float
    low: float | None
    high: float | None
    pairs: int
    tasks: int
    margin: float
    loss: float
    longer: float


def quality(tasks: Sequence[str], margins: Sequence[float], longer: Sequence[bool]) -> Quality:
    """Of pairs of these tasks, by the difference of their scores.

    Args:
        tasks: (P) task of each pair.
        margins: (P) score of the better less score of the worse.
        longer: (P) whether the better one is the longer.

    Raises:
        ValueError: there are no pairs.
    """
    if not len(margins):
        raise ValueError("there are no pairs to judge a reward model by")
    difference = np.asarray(margins, dtype=np.float64)
    right: dict[str, list[float]] = defaultdict(list)
    for task, value in zip(tasks, difference, strict=True):
        right[task].append(float(value > 0))
    low, high = over_tasks([sum(hits) for hits in right.values()], [len(hits) for hits in right.values()])
    return Quality(
        accuracy=float((difference > 0).mean()),
        low=low,
        high=high,
        pairs=len(difference),
        tasks=len(right),
        margin=float(difference.mean()),
        loss=float(-np.log(np.maximum(expit(difference), np.finfo(np.float64).tiny)).mean()),
        longer=float(np.mean(longer)),
    )
