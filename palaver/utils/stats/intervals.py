"""Intervals of means, and statistics of a few repeats of one run with different seeds.

The intervals are of 95 %. Student's and Welch's take the values as draws from a normal distribution; the percentile
bootstrap (B. Efron, 1979) does not, but is narrow for few of them. The repeats have agreement, and two modes.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from palaver.utils.stats.effects import LEVEL, Array

RESAMPLES = 10_000  # of the seeds
TASK_RESAMPLES = 2000  # of the tasks
AGREE = 0.02  # of the range: seeds no further apart than this agree
APART = 0.1  # of the range: modes nearer to each other than this are one
CLEAR = 4.0  # times the spread within a mode that the gap between two exceeds
FEWEST = 4  # seeds that can have two modes

Interval = tuple[float, float]
Values = Sequence[float] | Array


@dataclass(frozen=True)
class Mode:
    """Seeds with similar returns: their mean and number."""

    mean: float
    seeds: int


def student(values: Sequence[float]) -> Interval | None:
    """Student's t interval of the mean, m ± t(n - 1) s / √n; None for one value.

    >>> [round(end, 3) for end in student([1.0, 2.0, 3.0])]
    [-0.484, 4.484]
    """
    n = len(values)
    if n < 2:
        return None
    mean, error = float(np.mean(values)), float(np.std(values, ddof=1)) / n**0.5
    if np.ptp(values) == 0:
        return mean, mean
    half = student_quantile(n - 1) * error
    return mean - half, mean + half


def student_quantile(degrees: float) -> float:
    """Half the width of the interval of Student's t with so many degrees of freedom."""
    return float(stats.t.ppf((1 + LEVEL) / 2, degrees))


def bootstrap(values: Sequence[float]) -> Interval | None:
    """Percentile bootstrap interval of the mean of seeds.

    It is the same on every call; None for one value.
    """
    return _bootstrap(tuple(values)) if len(values) > 1 else None


@functools.lru_cache(maxsize=4096)  # the picture, the page and the table of a laboratory ask for the same cells
def _bootstrap(values: tuple[float, ...]) -> Interval:
    drawn = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = percentile_ends(np.array(values)[drawn].mean(axis=1))
    return float(low), float(high)


def percentile_ends(drawn: Array, level: float = LEVEL) -> tuple[Any, Any]:
    """Ends of the percentile interval of resampled values; of each column if there are several."""
    tail = (1 - level) / 2
    low, high = np.quantile(drawn, [tail, 1 - tail], axis=0)
    return low, high


def quantile(values: Values, share: float) -> float:
    """The value below which a share of the values lies, by linear interpolation."""
    return float(np.quantile(values, share))


def resampled(
    samples: Sequence[NDArray[Any]], statistic: Callable[..., Any], resamples: int, **options: Any
) -> Interval:
    """Percentile bootstrap interval of a statistic; the same on every call.

    Args:
        samples: one or more that are resampled along their last axis; with `paired` by the same draws.
        statistic: (samples, axis) -> value.
        resamples: number of them.
        options: of `scipy.stats.bootstrap`.
    """
    ends = stats.bootstrap(
        samples,
        statistic,
        n_resamples=resamples,
        confidence_level=LEVEL,
        method="percentile",
        rng=np.random.default_rng(0),
        **options,
    ).confidence_interval
    return float(ends.low), float(ends.high)


def over_tasks(totals: Values, counts: Values | None = None) -> Interval | tuple[None, None]:
    """Percentile bootstrap interval over tasks of sum(totals) / sum(counts).

    None below two tasks.

    Args:
        totals: one a task.
        counts: likewise; None: 1 each, so that the interval is of the mean.
    """
    sums = np.asarray(totals, dtype=np.float64)
    sizes = np.ones_like(sums) if counts is None else np.asarray(counts, dtype=np.float64)
    if len(sums) < 2:
        return None, None
    if np.ptp(shares := sums / sizes) == 0:
        return float(shares[0]), float(shares[0])
    return resampled((sums, sizes), _ratio, TASK_RESAMPLES, paired=True, vectorized=True)


def _ratio(sums: Array, sizes: Array, axis: int) -> Any:
    return sums.sum(axis=axis) / sizes.sum(axis=axis)


def agree(values: Sequence[float], span: float) -> bool:
    """Return whether several seeds agree: none further from another than 2 % of the range.

    Args:
        values: of the seeds.
        span: the range that returns are judged by.

    >>> agree([7.0, 7.06], 3.25), agree([7.0, 7.07], 3.25)
    (True, False)
    """
    return len(values) > 1 and float(np.ptp(values)) <= AGREE * span + 1e-9


def modes(values: Sequence[float], span: float) -> tuple[Mode, ...]:
    """The two modes of four seeds or more, the higher first; empty where there is one.

    The seeds are cut at the largest gap between neighbours. Both sides are modes where the gap is more than half of
    what lies between the extremes, more than four times the larger spread (greatest less least) within a side, and more
    than a tenth of the range.

    Args:
        values: of the seeds.
        span: the range that returns are judged by.

    >>> modes([0.0, 0.02, 0.96, 1.0, 1.0], 1.0)
    (Mode(mean=0.9866666666666667, seeds=3), Mode(mean=0.01, seeds=2))
    """
    if len(values) < FEWEST:
        return ()
    ordered = np.sort(np.array(values, dtype=np.float64))
    cut = int(np.argmax(np.diff(ordered))) + 1
    low, high = ordered[:cut], ordered[cut:]
    gap = float(high[0] - low[-1])
    within = max(float(np.ptp(low)), float(np.ptp(high)))
    if gap <= max(float(np.ptp(ordered)) / 2, CLEAR * within, APART * span):
        return ()
    return Mode(float(high.mean()), len(high)), Mode(float(low.mean()), len(low))


def welch(a: Values, b: Values) -> Interval | None:
    """Interval of mean(a) - mean(b) with unequal variances (B. L. Welch, 1947).

    None for fewer than two of either. With v = s² / n of each, d ± t(f) √(va + vb), f = (va + vb)² / (va² / (na - 1) +
    vb² / (nb - 1)). Where neither varies it is the difference itself.
    """
    if min(len(a), len(b)) < 2:
        return None
    parts = [float(np.var(sample, ddof=1)) / len(sample) if np.ptp(sample) else 0.0 for sample in (a, b)]
    difference, variance = float(np.mean(a) - np.mean(b)), sum(parts)
    if variance == 0:
        return difference, difference
    degrees = variance**2 / sum(term**2 / (len(sample) - 1) for term, sample in zip(parts, (a, b), strict=True))
    half = student_quantile(degrees) * math.sqrt(variance)
    return difference - half, difference + half
