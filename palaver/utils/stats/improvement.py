"""Improvement by training, and difference of settings, from repeats on held-out tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaver.utils.stats.intervals import resampled, student

RESAMPLES = 4000


@dataclass(frozen=True)
class Improvement:
    """Difference of two evaluations, as after training less before, and its 95 % interval.

    Attributes:
        mean: over seeds, and tasks.
        low: lower end; None where there is neither a second seed nor a second task.
        high: upper end, likewise.
        over: what the interval is over, in words; "" where there is none.
    """

    mean: float
    low: float | None
    high: float | None
    over: str

    @property
    def verdict(self) -> str:
        """Result of the interval: `yes`, `no`, `worse`, or `–` if there is none."""
        if self.low is None or self.high is None:
            return "–"
        return "yes" if self.low > 0 else "worse" if self.high < 0 else "no"

    def over_limit(self, limit: float) -> Improvement:
        """Return the same divided by the maximum return."""
        low, high = (None if end is None else end / limit for end in (self.low, self.high))
        return Improvement(self.mean / limit, low, high, self.over)


def improvement(means: Sequence[float], by_task: Sequence[Mapping[str, float]]) -> Improvement:
    """The improvement over several seeds of one setting.

    If every seed has values by task, on the same tasks, the interval is a percentile bootstrap that resamples seeds
    and tasks, independently and with replacement (A. Owen, "The pigeonhole bootstrap", 2007), so that it speaks of
    other tasks and of other seeds. It is wide in what is neither the task's nor the seed's part, whose variance it
    counts about three times, and narrow in the part of few seeds: S of them are drawn with (S - 1) / S of their
    variance. Of one seed it draws tasks alone, and says nothing of other seeds. Otherwise it is Student's t interval of
    the seeds' means.

    Args:
        means: of each seed, after less before.
        by_task: of each seed, task -> after less before; empty where it is not known.
    """
    tasks = sorted(by_task[0]) if by_task else []
    if not tasks or any(sorted(by_this_task) != tasks for by_this_task in by_task) or len(by_task) != len(means):
        return _student(np.array(means, dtype=np.float64))
    return _bootstrap([_matrix(by_task, tasks)])


def paired_difference(
    first: Sequence[Mapping[str, float]], second: Sequence[Mapping[str, float]]
) -> Improvement | None:
    """Difference of two settings on the tasks common to all seeds; None if there are none.

    The tasks are paired, the seeds are not: the percentile bootstrap draws the seeds of each setting, and the same
    tasks for both, as in `improvement`.

    Args:
        first: of each seed, task -> return.
        second: likewise, of the setting that is subtracted.
    """
    tasks = sorted(set.intersection(*(set(by_task) for by_task in (*first, *second))))
    return _bootstrap([_matrix(first, tasks), _matrix(second, tasks)]) if tasks else None


def _matrix(by_task: Sequence[Mapping[str, float]], tasks: Sequence[str]) -> NDArray[np.float64]:
    """(S seeds, T tasks)"""
    return np.array([[by_this_task[task] for task in tasks] for by_this_task in by_task], dtype=np.float64)


def _student(means: NDArray[np.float64]) -> Improvement:
    mean, interval = float(means.mean()), student(means.tolist())
    if interval is None:
        return Improvement(mean, None, None, "")
    low, high = interval
    return Improvement(mean, low, high, f"the means of {len(means)} seeds (Student's t)")


def _bootstrap(settings: Sequence[NDArray[np.float64]]) -> Improvement:
    """Mean of the first setting less that of the second, if there is one.

    Each is of shape (S seeds, T tasks).
    """
    signs = (1.0, -1.0)[: len(settings)]
    mean = sum(sign * float(values.mean()) for sign, values in zip(signs, settings, strict=True))
    sizes = [*(len(values) for values in settings), settings[0].shape[1]]
    drawn = [np.arange(n) for n in sizes if n > 1]
    if not drawn:
        return Improvement(mean, None, None, "")

    def statistic(*numbers: NDArray[Any], axis: int) -> NDArray[np.float64]:
        """Means of the drawn seeds and tasks, numbers of which stand along the last axis."""
        picks = iter(numbers)
        *seeds, tasks = [next(picks).astype(int) if n > 1 else np.zeros(1, dtype=int) for n in sizes]
        means = [
            sign * values[rows[..., :, None], tasks[..., None, :]].mean(axis=(axis - 1, axis))
            for sign, values, rows in zip(signs, settings, seeds, strict=True)
        ]
        return np.asarray(sum(means))

    low, high = resampled(drawn, statistic, RESAMPLES, batch=200, vectorized=True)
    *seeds, tasks = sizes
    if max(seeds) == 1:
        return Improvement(mean, low, high, f"{tasks} tasks of one seed{' each' * (len(seeds) > 1)}")
    unit = f"{' and '.join(map(str, seeds))} seeds"
    return Improvement(mean, low, high, f"{unit} and {tasks} tasks" if tasks > 1 else unit)
