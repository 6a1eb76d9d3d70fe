"""Improvement by training with its interval, from repeats on the same held-out tasks."""

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
    """Evaluation after training less that before, and its 95 % interval.

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
    return _bootstrap(np.array([[by_this_task[task] for task in tasks] for by_this_task in by_task], dtype=np.float64))


def _student(means: NDArray[np.float64]) -> Improvement:
    mean, interval = float(means.mean()), student(means.tolist())
    if interval is None:
        return Improvement(mean, None, None, "")
    low, high = interval
    return Improvement(mean, low, high, f"the means of {len(means)} seeds (Student's t)")


def _bootstrap(difference: NDArray[np.float64]) -> Improvement:
    """Of (S seeds, T tasks)."""
    mean, (seeds, tasks) = float(difference.mean()), difference.shape
    over = {"seeds": seeds, "tasks": tasks}
    drawn = [np.arange(n) for n in over.values() if n > 1]
    if not drawn:
        return Improvement(mean, None, None, "")

    def statistic(*numbers: NDArray[Any], axis: int) -> NDArray[np.float64]:
        """Means of the drawn seeds and tasks, numbers of which stand along the last axis."""
        picks = iter(numbers)
        chosen = [next(picks).astype(int) if n > 1 else np.zeros(1, dtype=int) for n in over.values()]
        grid = difference[chosen[0][..., :, None], chosen[1][..., None, :]]
        return np.asarray(grid.mean(axis=(axis - 1, axis)))

    low, high = resampled(drawn, statistic, RESAMPLES, batch=200, vectorized=True)
    unit = " and ".join(f"{n} {name}" for name, n in over.items() if n > 1)
    unit += " of one seed" if seeds == 1 else ""
    return Improvement(mean, low, high, unit)
