"""Scores of one pairing and their intervals.

Pure functions; a score is (wins + ties / 2) / games.
"""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

LEVEL = 0.95
LEAST_EFFECT, MOST_EFFECT = 0.5, 2.0
FEW = 10  # matches; what fewer of them say of their variance is not believed

Array = NDArray[np.float64]


def wilson(points: float, games: float, level: float = LEVEL) -> tuple[float, float]:
    """Score interval of Wilson (1927).

    E. B. Wilson, Probable inference, the law of succession, and statistical inference. With p = points / games and z
    the normal quantile: (p + z²/2n ± z √(p(1 − p)/n + z²/4n²)) / (1 + z²/n).

    Args:
        points: wins and half the ties, between 0 and `games`.
        games: n, which may be an effective number that is not whole; with 0 the interval is all of [0, 1].
        level: its nominal coverage.

    >>> tuple(round(end, 4) for end in wilson(8, 10))
    (0.4902, 0.9433)
    """
    if games <= 0:
        return 0.0, 1.0
    share, z = points / games, NormalDist().inv_cdf((1 + level) / 2)
    middle = share + z**2 / (2 * games)
    half = z * math.sqrt(share * (1 - share) / games + z**2 / (4 * games**2))
    scale = 1 + z**2 / games
    return max(0.0, (middle - half) / scale), min(1.0, (middle + half) / scale)


def effect(points: Array, games: Array) -> float:
    """Design effect: variance of a score over that of independent games without ties.

    L. Kish, Survey sampling, 1965: the two games of a match are correlated, and ties vary less. With s² the variance of
    the matches' shares, M matches of n games in all, and p their mean share: (s² / M) / (p (1 − p) / n). Two games that
    always end alike give 2, the most that is possible. What fewer than ten matches say is not believed, and less than
    1/2 is not either.

    Args:
        points: (M,) of one player in each match.
        games: (M,) of the match that were played; those with 0 do not count.
    """
    played = games > 0
    count, total = int(played.sum()), float(games.sum())
    mean = float(points.sum()) / total if total else 0.5
    if count < FEW or not 0 < mean < 1:
        return 1.0
    shares = points[played] / games[played]
    ratio = float(shares.var(ddof=1)) / count / (mean * (1 - mean) / total)
    return min(MOST_EFFECT, max(LEAST_EFFECT, ratio))


def score_interval(points: Array, games: Array, level: float = LEVEL) -> tuple[float, float]:
    """Wilson's interval with the effective number of games, n / `effect`. Shapes as there."""
    effective = float(games.sum()) / effect(points, games)
    share = float(points.sum()) / max(float(games.sum()), 1.0)
    return wilson(share * effective, effective, level)


def games_for(half_width: float, level: float = LEVEL) -> int:
    """Number of games after which the interval has the given half width: z² / 4w².

    It holds for a score of one half.

    >>> games_for(0.10), games_for(0.05), games_for(0.03)
    (97, 385, 1068)
    """
    z = NormalDist().inv_cdf((1 + level) / 2)
    return math.ceil(z**2 / (4 * half_width**2))
