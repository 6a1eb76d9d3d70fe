"""Statistics of a few repeats of one run with different seeds.

They are intervals of the mean, agreement, and two modes. The intervals are of 95 %. Student's and Welch's take the
seeds' returns as draws from a normal distribution; the bootstrap does not, but is narrow for few seeds.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

LEVEL = 0.95
RESAMPLES = 10_000
AGREE = 0.02  # of the range: seeds no further apart than this agree
APART = 0.1  # of the range: modes nearer to each other than this are one
CLEAR = 4.0  # times the spread within a mode that the gap between two exceeds
FEWEST = 4  # seeds that can have two modes

Interval = tuple[float, float]


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
    half = float(stats.t.ppf((1 + LEVEL) / 2, n - 1)) * error
    return mean - half, mean + half


def bootstrap(values: Sequence[float]) -> Interval | None:
    """Percentile bootstrap interval of the mean (B. Efron, 1979).

    It is the same on every call; None for one value.
    """
    return _bootstrap(tuple(values)) if len(values) > 1 else None


@functools.lru_cache(maxsize=4096)  # the picture, the page and the table of a laboratory ask for the same cells
def _bootstrap(values: tuple[float, ...]) -> Interval:
    drawn = np.random.default_rng(0).integers(len(values), size=(RESAMPLES, len(values)))
    low, high = np.quantile(np.array(values)[drawn].mean(axis=1), [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return float(low), float(high)


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


def welch(a: Sequence[float], b: Sequence[float]) -> Interval | None:
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
    half = float(stats.t.ppf((1 + LEVEL) / 2, degrees)) * variance**0.5
    return difference - half, difference + half
