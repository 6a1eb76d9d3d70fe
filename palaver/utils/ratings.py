"""Elo ratings of players with bootstrap intervals, from Bradley-Terry strengths.

Axes: P players, K unordered pairs of them that have met, M matches, B bootstrap samples or repeats of the same
computation on other counts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from palaver.core import ConfigError
from palaver.utils.stats.effects import FEW, LEAST_EFFECT, LEVEL, Array, effect
from palaver.utils.stats.intervals import percentile_ends

RESAMPLES = 1000
ELO = 400 / math.log(10)  # Elo points of one unit of log-odds
LADDER_DEVIATION = 350.0  # of an unknown player, in Glicko
STEPS, TOLERANCE = 100, 1e-7

Pairs = NDArray[np.intp]


@dataclass(frozen=True)
class PairedResults:
    """Results of all pairs; a match is two games with sides swapped.

    Attributes:
        players: P names.
        pairs: (K, 2) indices of players.
        points: (K, M) of the first of each pair in each match: wins and half the ties.
        games: (K, M) that were played: 2 if the match is complete.
    """

    players: tuple[str, ...]
    pairs: Pairs
    points: Array
    games: Array


@dataclass(frozen=True)
class Rating:
    """Rating of one player.

    Attributes:
        player: its name.
        elo: rating in Elo points; the anchor's is given.
        low: lower end of the interval; for the anchor its rating.
        high: upper end, likewise.
        deviation: standard deviation of the rating: the larger of the bootstrap's and the model's.
        bounded: True if the results bound the rating from both sides. Where a player has won (lost) every game that
            links it with the anchor, the upper (lower) end follows from the penalty of the likelihood alone.
        gxe: chance in percent to beat an unknown player, where the mean rating of the players counts as 1500.
    """

    player: str
    elo: float
    low: float
    high: float
    deviation: float
    bounded: bool
    gxe: float


def rate(
    field: PairedResults, anchor: str, at: float, *, seed: int = 0, resamples: int = RESAMPLES, level: float = LEVEL
) -> tuple[list[Rating], float]:
    """Ratings in the order of the players, and the factor of over-dispersion φ.

    The interval is a percentile bootstrap (B. Efron, 1979) over matches: the games of one match, of all pairs, are
    drawn together, as they share task and seed. A pair in which one side won all n games is drawn as if it had lost a
    share of 1 / 2(n + 1), for resampling a sequence of wins shows no chance at all. The distances to the rating are
    widened by √φ. The interval is at least that of the model for independent games at the least design effect that
    `effect` returns, for few matches may happen to be alike.

    Args:
        field: results of the players.
        anchor: name of the player whose rating is fixed.
        at: its rating in Elo points.
        seed: of the bootstrap.
        resamples: B.
        level: nominal coverage of the intervals.

    Raises:
        ConfigError: no player has the anchor's name, or some are not linked with the others through games.
    """
    if anchor not in field.players:
        raise ConfigError(f"the anchor {anchor!r} is not among the players {', '.join(field.players)}")
    anchor_index, n_players = field.players.index(anchor), len(field.players)
    points, games = field.points.sum(axis=1), field.games.sum(axis=1)
    if not linked(games, field.pairs, n_players):
        raise ConfigError("some players have not met the others, even through third ones; play their games first")
    fitted = strengths(points[None], games[None], field.pairs, n_players)[0]
    factor = dispersion(points, games, field.pairs, fitted, common_effect(field))
    gaps = fitted - fitted[anchor_index]
    elo = gaps * ELO + at

    drawn = strengths(*_resample(field, resamples, seed), field.pairs, n_players)
    tail = (1 - level) / 2
    z = NormalDist().inv_cdf(1 - tail)
    n_pairs, n_matches = field.games.shape
    widening = _expansion(n_pairs, n_matches, z, tail) * math.sqrt(factor)
    errors = (drawn - drawn[:, [anchor_index]] - gaps) * widening * ELO  # (B, P)
    least_effect = 1.0 if n_matches < FEW else LEAST_EFFECT
    model_deviation = deviations(fitted, games, field.pairs, anchor_index)
    model_deviation = model_deviation * math.sqrt(least_effect * factor) * ELO
    deviation = np.maximum(errors.std(axis=0), model_deviation)
    is_bounded = bounded(points, games, field.pairs, n_players, anchor_index)
    mean_elo = float(elo.mean())
    chances = [gxe(1500 + float(each) - mean_elo, float(d)) for each, d in zip(elo, deviation, strict=True)]
    low, high = percentile_ends(errors, level)
    low, high = np.minimum(low, -z * model_deviation), np.maximum(high, z * model_deviation)
    return [
        Rating(
            player=name,
            elo=float(elo[n]),
            low=float(elo[n] + low[n]),
            high=float(elo[n] + high[n]),
            deviation=float(deviation[n]),
            bounded=is_bounded[n],
            gxe=chances[n],
        )
        for n, name in enumerate(field.players)
    ], factor


def _expansion(pairs: int, matches: int, z: float, tail: float) -> float:
    """Small-sample correction of the bootstrap's width: √(M / (M − 1)) t / z.

    t has K (M − 1) degrees of freedom. T. Hesterberg, What teachers should know about the bootstrap (2015).
    """
    free = max(1, matches - 1)
    return math.sqrt((free + 1) / free) * float(stats.t.ppf(1 - tail, pairs * free)) / z


def common_effect(field: PairedResults) -> float:
    """Mean design effect of the pairs, weighted by games; 1 if no pair has mixed results."""
    games = field.games.sum(axis=1)
    share = field.points.sum(axis=1) / np.maximum(games, 1)
    mixed = (share > 0) & (share < 1)  # the others have no variance
    if not mixed.any():
        return 1.0
    effects = [effect(points, played) for points, played in zip(field.points[mixed], field.games[mixed], strict=True)]
    return float(np.average(effects, weights=games[mixed]))


def _resample(field: PairedResults, resamples: int, seed: int) -> tuple[Array, Array]:
    """Points and games of matches drawn with replacement, both (B, K)."""
    generator = np.random.default_rng(seed)
    matches = field.games.shape[1]
    counts = generator.multinomial(matches, np.full(matches, 1 / matches), size=resamples).astype(np.float64)  # (B, M)
    points, games = counts @ field.points.T, counts @ field.games.T
    won, played = field.points.sum(axis=1), field.games.sum(axis=1)
    upset_chance = 1 / (2 * (played + 1))
    upsets = generator.binomial(np.rint(games).astype(np.int64), np.broadcast_to(upset_chance, games.shape))
    points = np.where(won == played, points - upsets, points)
    points = np.where(won == 0, points + upsets, points)
    return np.clip(points, 0, games), games


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
