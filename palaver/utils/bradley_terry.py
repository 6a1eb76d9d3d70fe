"""Strengths from results: Bradley-Terry in the units of Elo. Pure functions.

Axes: P players, K unordered pairs of them that have met, B repeats of the same computation on other counts.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

ELO = 400 / math.log(10)  # Elo points of one unit of log-odds
LADDER_DEVIATION = 350.0  # of an unknown player, in Glicko
STEPS, TOLERANCE = 100, 1e-7

Array = NDArray[np.float64]
Pairs = NDArray[np.intp]


def expected(strengths: Array, pairs: Pairs) -> Array:
    """The model's score of the first of each pair, 1 / (1 + exp(θ_b − θ_a)).

    (…, P) and (K, 2) to (…, K). R. A. Bradley and M. E. Terry, Rank analysis of incomplete block designs: I (1952).
    """
    gap = strengths[..., pairs[:, 0]] - strengths[..., pairs[:, 1]]
    return np.asarray(1 / (1 + np.exp(-gap)), dtype=np.float64)


def strengths(points: Array, games: Array, pairs: Pairs, players: int) -> Array:
    """The strengths θ that explain the scores best, with mean 0; a tie is half a win for both.

    Maximises the likelihood of Bradley and Terry with the penalty of D. Firth, Bias reduction of maximum likelihood
    estimates (1993), half the log-determinant of the information. It takes the bias of first order away, and a
    player that has won all its games has a finite strength (G. Heinze and M. Schemper, A solution to the problem of
    separation in logistic regression, 2002): every pair counts as if h more games had been played and shared, where
    the h of all pairs add up to P − 1. Newton steps, halved where they are longer than 2.

    Args:
        points: (B, K) of the first of each pair: wins and half the ties.
        games: (B, K); pairs that have not met have 0.
        pairs: (K, 2) numbers of players. Every player must be linked with every other through games.
        players: P.

    Returns:
        (B, P).
    """
    first, second = pairs.T
    design = np.zeros((len(pairs), players))
    design[np.arange(len(pairs)), first] = 1
    design[np.arange(len(pairs)), second] = -1
    squares = (design[:, :, None] * design[:, None, :]).reshape(len(pairs), -1)
    level = np.full((players, players), 1 / players)  # takes the freedom of a common shift away
    values = np.zeros((len(points), players))
    for _ in range(STEPS):
        score = expected(values, pairs)
        weight = games * score * (1 - score)
        inverse = np.linalg.inv((weight @ squares).reshape(-1, players, players) + level)
        variance = inverse[:, first, first] + inverse[:, second, second] - 2 * inverse[:, first, second]
        gradient = (points - games * score + weight * variance * (0.5 - score)) @ design
        step = (inverse @ gradient[:, :, None])[:, :, 0]
        longest = np.abs(step).max(axis=1, keepdims=True, initial=0.0)
        values = values + step * np.minimum(1.0, 2.0 / np.maximum(longest, 2.0))
        if not longest.size or longest.max() < TOLERANCE:
            break
    return np.asarray(values - values.mean(axis=1, keepdims=True), dtype=np.float64)


def deviations(strengths: Array, games: Array, pairs: Pairs, anchor: int) -> Array:
    """Standard deviations of the distances to the anchor. (P,), (K,), (K, 2) to (P,).

    They follow from the Fisher information of the model, as if all games were independent and without ties.
    """
    score = expected(strengths, pairs)
    information = np.full((len(strengths), len(strengths)), 1 / len(strengths))
    for (a, b), weight in zip(pairs, games * score * (1 - score), strict=True):
        information[a, a] += weight
        information[b, b] += weight
        information[a, b] -= weight
        information[b, a] -= weight
    inverse = np.linalg.inv(information)
    variance = np.diag(inverse) + inverse[anchor, anchor] - 2 * inverse[anchor]
    return np.asarray(np.sqrt(np.maximum(variance, 0)), dtype=np.float64)


def linked(games: Array, pairs: Pairs, players: int) -> bool:
    """Return whether every player can be compared with every other through games. (K,), (K, 2)."""
    from scipy.sparse.csgraph import connected_components

    graph = np.zeros((players, players))
    graph[pairs[:, 0], pairs[:, 1]] = games
    return int(connected_components(graph, directed=False)[0]) == 1


def bounded(points: Array, games: Array, pairs: Pairs, players: int, anchor: int) -> list[bool]:
    """True for each player whose distance to the anchor is bounded by the results alone.

    Each has taken points from the other, or through others (L. R. Ford, Solution of a ranking problem from binary
    comparisons, 1957). Shapes (K,), (K, 2).
    """
    from scipy.sparse.csgraph import connected_components

    graph = np.zeros((players, players))
    graph[pairs[:, 0], pairs[:, 1]] = points
    graph[pairs[:, 1], pairs[:, 0]] = games - points
    group = connected_components(graph, directed=True, connection="strong")[1]
    return [bool(label == group[anchor]) for label in group]


def dispersion(points: Array, games: Array, pairs: Pairs, strengths: Array, effect: float) -> float:
    """Over-dispersion of the pairs' scores about the model: χ² over its degrees of freedom.

    χ² = Σ (s − n p)² / (e n p (1 − p)) with the design effect e, over K − (P − 1) degrees; 1 where none is left, and
    never less (P. McCullagh and J. A. Nelder, Generalized linear models, 1989, section 4.5). Above 1 some players do
    better against some than their strengths say, and intervals are to be widened by its root.

    Args:
        points: (K,).
        games: (K,).
        pairs: (K, 2).
        strengths: (P,) strengths.
        effect: e, by which the variance of a pair's points differs from that of independent games without ties.
    """
    met = games > 0
    free = int(met.sum()) - (len(strengths) - 1)
    if free < 1:
        return 1.0
    score = expected(strengths, pairs)[met]
    variance = effect * games[met] * score * (1 - score)
    return max(1.0, float(((points[met] - games[met] * score) ** 2 / variance).sum()) / free)


def gxe(rating: float, deviation: float, middle: float = 1500.0) -> float:
    """Chance in percent to beat an unknown player (Showdown's GXE).

    Of that player only its membership in this field is known. The expected score of Glicko (M. E. Glickman, Parameter
    estimation in large dynamic paired comparison experiments, 1999) against rating `middle` with deviation 350: 100 /
    (1 + 10^(−g (R − middle) / 400)) with g = 1 / √(1 + 3 q² (RD² + 350²) / π²) and q = ln 10 / 400.

    >>> gxe(1500, 50), round(gxe(1900, 25), 1)
    (50.0, 82.3)
    """
    spread = deviation**2 + LADDER_DEVIATION**2
    g = 1 / math.sqrt(1 + 3 * spread / (ELO * math.pi) ** 2)
    return 100 / (1 + math.exp(-g * (rating - middle) / ELO))
