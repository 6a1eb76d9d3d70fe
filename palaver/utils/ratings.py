"""Ratings of a field of players with their intervals, from the points of each match."""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from scipy import stats

from palaver.core import ConfigError
from palaver.utils import bradley_terry as ratings
from palaver.utils.bradley_terry import ELO, Pairs
from palaver.utils.stats.effects import FEW, LEAST_EFFECT, LEVEL, Array, effect

RESAMPLES = 1000


@dataclass(frozen=True)
class PairedResults:
    """Results of P players, K unordered pairs that have met, M matches (sides swapped).

    Attributes:
        players: their P names.
        pairs: (K, 2) numbers of players.
        points: (K, M) of the first of each pair in each match: wins and half the ties.
        games: (K, M) that were played: 2 where the match is complete.
    """

    players: tuple[str, ...]
    pairs: Pairs
    points: Array
    games: Array


@dataclass(frozen=True)
class Rating:
    """One player's place.

    Attributes:
        player: its name.
        elo: in Elo points, the anchor's being what was asked for.
        low: lower end of the interval; the anchor has none but its rating.
        high: likewise.
        deviation: standard deviation of the rating, resampled or the model's own if that is larger.
        bounded: whether the results bound it from both sides; who has won (or lost) against all that link it with the
            anchor could be any better (worse), and the end on that side is what the penalty makes of it.
        gxe: chance in percent to beat an unknown player of this field, whose mean rating counts as the middle.
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

    The interval is a percentile bootstrap (B. Efron, 1979). What is drawn are matches: both games of every pairing that
    played them stay together, as they share task and seed. A pair in which one side won everything is drawn as if it
    had lost a share of 1 / 2(n + 1), for resampling a sequence of wins shows no chance at all. The distances to the
    rating are widened by √φ. An interval is not narrower than the model's own for independent games at the least design
    effect that `effect` believes, for few matches may happen to be alike.

    Raises:
        ConfigError: no player is called as the anchor, or some have not met the others even through third ones.
    """
    if anchor not in field.players:
        raise ConfigError(f"the anchor {anchor!r} is not among the players {', '.join(field.players)}")
    anchor_index, size = field.players.index(anchor), len(field.players)
    points, games = field.points.sum(axis=1), field.games.sum(axis=1)
    if not ratings.linked(games, field.pairs, size):
        raise ConfigError("some players have not met the others, even through third ones; play their games first")
    strengths = ratings.strengths(points[None], games[None], field.pairs, size)[0]
    factor = ratings.dispersion(points, games, field.pairs, strengths, common_effect(field))
    drawn = ratings.strengths(*_resample(field, resamples, seed), field.pairs, size)
    tail = (1 - level) / 2
    z = NormalDist().inv_cdf(1 - tail)
    pairs, matches = field.games.shape
    wider = _expansion(pairs, matches, z, tail) * math.sqrt(factor)
    away = (drawn - drawn[:, [anchor_index]] - (strengths - strengths[anchor_index])) * wider * ELO
    elo = (strengths - strengths[anchor_index]) * ELO + at
    least = 1.0 if field.games.shape[1] < FEW else LEAST_EFFECT
    model_spread = ratings.deviations(strengths, games, field.pairs, anchor_index) * math.sqrt(least * factor) * ELO
    low, high = np.quantile(away, [tail, 1 - tail], axis=0)
    low, high = np.minimum(low, -z * model_spread), np.maximum(high, z * model_spread)
    sure = ratings.bounded(points, games, field.pairs, size, anchor_index)
    spread = np.maximum(away.std(axis=0), model_spread)
    middle = float(elo.mean())
    return [
        Rating(
            name,
            float(elo[n]),
            float(elo[n] + low[n]),
            float(elo[n] + high[n]),
            float(spread[n]),
            sure[n],
            ratings.gxe(1500 + float(elo[n]) - middle, float(spread[n])),
        )
        for n, name in enumerate(field.players)
    ], factor


def _expansion(pairs: int, matches: int, z: float, tail: float) -> float:
    """Small-sample correction of the bootstrap's width: √(M / (M − 1)) t / z.

    With the degrees of freedom of all pairings, K (M − 1) (T. Hesterberg, What teachers should know about the
    bootstrap, 2015).
    """
    free = max(1, matches - 1)
    return math.sqrt((free + 1) / free) * float(stats.t.ppf(1 - tail, pairs * free)) / z


def common_effect(field: PairedResults) -> float:
    """The mean over pairs of the design effect, by games.

    Pairs that always end alike say nothing.
    """
    games = field.games.sum(axis=1)
    share = field.points.sum(axis=1) / np.maximum(games, 1)
    mixed = (share > 0) & (share < 1)
    if not mixed.any():
        return 1.0
    return float(
        np.average(
            [effect(p, g) for p, g in zip(field.points[mixed], field.games[mixed], strict=True)], weights=games[mixed]
        )
    )


def _resample(field: PairedResults, resamples: int, seed: int) -> tuple[Array, Array]:
    """(B, K) points and games of matches drawn with replacement."""
    generator = np.random.default_rng(seed)
    matches = field.games.shape[1]
    counts = generator.multinomial(matches, np.full(matches, 1 / matches), size=resamples).astype(np.float64)
    points, games = counts @ field.points.T, counts @ field.games.T
    won, played = field.points.sum(axis=1), field.games.sum(axis=1)
    chance = 1 / (2 * (played + 1))
    upset = generator.binomial(np.rint(games).astype(np.int64), np.broadcast_to(chance, games.shape))
    points = np.where(won == played, points - upset, points)
    points = np.where(won == 0, points + upset, points)
    return np.clip(points, 0, games), games
