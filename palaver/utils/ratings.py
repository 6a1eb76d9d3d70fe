"""Elo ratings of players with bootstrap intervals, from the points of each match.

Axes: P players, K unordered pairs of them that have met, M matches, B bootstrap samples.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from scipy import stats

from palaver.core import ConfigError
from palaver.utils import bradley_terry
from palaver.utils.bradley_terry import ELO, Pairs
from palaver.utils.stats.effects import FEW, LEAST_EFFECT, LEVEL, Array, effect
from palaver.utils.stats.intervals import percentile_ends

RESAMPLES = 1000


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
    if not bradley_terry.linked(games, field.pairs, n_players):
        raise ConfigError("some players have not met the others, even through third ones; play their games first")
    strengths = bradley_terry.strengths(points[None], games[None], field.pairs, n_players)[0]
    dispersion = bradley_terry.dispersion(points, games, field.pairs, strengths, common_effect(field))
    gaps = strengths - strengths[anchor_index]
    elo = gaps * ELO + at

    drawn = bradley_terry.strengths(*_resample(field, resamples, seed), field.pairs, n_players)
    tail = (1 - level) / 2
    z = NormalDist().inv_cdf(1 - tail)
    n_pairs, n_matches = field.games.shape
    widening = _expansion(n_pairs, n_matches, z, tail) * math.sqrt(dispersion)
    errors = (drawn - drawn[:, [anchor_index]] - gaps) * widening * ELO  # (B, P)
    least_effect = 1.0 if n_matches < FEW else LEAST_EFFECT
    model_deviation = bradley_terry.deviations(strengths, games, field.pairs, anchor_index)
    model_deviation = model_deviation * math.sqrt(least_effect * dispersion) * ELO
    low, high = percentile_ends(errors, level)
    low, high = np.minimum(low, -z * model_deviation), np.maximum(high, z * model_deviation)
    deviation = np.maximum(errors.std(axis=0), model_deviation)

    bounded = bradley_terry.bounded(points, games, field.pairs, n_players, anchor_index)
    mean_elo = float(elo.mean())
    return [
        Rating(
            player=name,
            elo=float(elo[n]),
            low=float(elo[n] + low[n]),
            high=float(elo[n] + high[n]),
            deviation=float(deviation[n]),
            bounded=bounded[n],
            gxe=bradley_terry.gxe(1500 + float(elo[n]) - mean_elo, float(deviation[n])),
        )
        for n, name in enumerate(field.players)
    ], dispersion


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
