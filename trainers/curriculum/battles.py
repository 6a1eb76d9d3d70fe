"""Battles of a stage: their number distributed over pairs and team sets. Pure functions."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from palaver.core import stable_seed
from palaver.trainers.curriculum.config import COACH, STUDENT, Ratings, Stage
from palaver.trainers.matches.config import GameSpec
from palaver.trainers.matches.recording import Advice

MIRROR = "+2"  # suffix of a player's second label in self-play


class StagePlayer(NamedTuple):
    """A player: its label, its name in the arena, and an identifier of the player."""

    label: str
    player: str
    mark: str


@dataclass(frozen=True)
class BattleOrder:
    """Battles to be played.

    Attributes:
        players: label -> player of the arena.
        games: in order; their players are labels.
        seed: of matches and draws.
        marks: label -> identifier of its player, as the digest of a network, independent of its folder.
        advice: of a coach on their decisions; None for none.
    """

    players: Mapping[str, str]
    games: tuple[GameSpec, ...]
    seed: int
    marks: Mapping[str, str]
    advice: Advice | None = None

    @property
    def key(self) -> str:
        """Hash of the order."""
        advice = [] if self.advice is None else [[self.advice.coach, self.advice.labels, self.advice.share]]
        text = json.dumps([sorted(self.marks.items()), self.games, self.seed, *advice])
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def shares(weights: Sequence[float], floors: Sequence[float]) -> list[float]:
    """Return shares that add up to 1, proportional to the weights but none below its floor.

    Shares below their floor are set to it, and the others divide the remainder by their weights; repeated, as this
    lowers the others.

    Args:
        weights: not all 0.
        floors: that add up to 1 at most.

    >>> shares([8, 1, 1], [0, 0.15, 0.25])
    [0.6, 0.15, 0.25]
    """
    low: set[int] = set()
    while True:
        left = 1 - sum(floors[n] for n in low)
        total = sum(weight for n, weight in enumerate(weights) if n not in low)
        result = [floors[n] if n in low else left * weight / total for n, weight in enumerate(weights)]
        below = {n for n, share in enumerate(result) if share < floors[n] - 1e-12}
        if not below:
            return result
        low |= below


def portions(total: int, parts: Sequence[float]) -> list[int]:
    """Whole numbers nearest to the shares that add up to `total`.

    The largest remainders get one more (A. Hamilton's method of apportionment); of equal ones the first.

    >>> portions(10, [0.55, 0.25, 0.2])
    [6, 2, 2]
    """
    exact = [total * fraction for fraction in parts]
    counts = [math.floor(amount + 1e-9) for amount in exact]
    by_remainder = sorted(range(len(parts)), key=lambda n: (counts[n] - exact[n], n))
    for n in by_remainder[: total - sum(counts)]:
        counts[n] += 1
    return counts


def order(stage: Stage, players: Mapping[str, StagePlayer], seed: int) -> BattleOrder:
    """Battles of one attempt, with each match played twice, sides swapped.

    Pairs and team sets are evenly interleaved.

    Args:
        stage: of the curriculum.
        players: name in the stage -> player.
        seed: of this attempt.
    """
    pairs = list(stage.weighted())
    by_pair = shares([weight for _, weight in pairs], [0.0] * len(pairs))
    sets = sorted(stage.teams)
    by_set = shares([stage.teams[name].weight for name in sets], [stage.teams[name].floor for name in sets])
    cells = [(pair, name) for pair, _ in pairs for name in sets]
    counts = portions(stage.battles // 2, [one * two for one in by_pair for two in by_set])
    spread = sorted(
        ((n + 0.5) / count, cell) for cell, count in enumerate(counts) for n in range(count)
    )  # spread the matches of every cell evenly from start to end
    known: dict[str, str] = {}
    marks: dict[str, str] = {}
    games = []
    for match, (_, cell) in enumerate(spread):
        (one, two), teams = cells[cell]
        first, second = players[one].label, players[two].label
        second += MIRROR if first == second else ""
        known |= {first: players[one].player, second: players[two].player}
        marks |= {first: players[one].mark, second: players[two].mark}
        games += [GameSpec(teams, first, second, match, swapped) for swapped in (False, True)]
    advice = Advice(players[COACH].player, _labels(players[STUDENT]), stage.advice) if stage.advice else None
    return BattleOrder(known, tuple(games), seed, marks, advice)


def _labels(player: StagePlayer) -> tuple[str, str]:
    """Labels of a player on both sides of a battle."""
    return player.label, player.label + MIRROR


def field(ratings: Ratings, students: Mapping[str, str], seed: int) -> BattleOrder:
    """Games of an arena of students against each other and the opponents, on all team sets.

    Args:
        ratings: opponents and number of games.
        students: label -> player of the arena.
        seed: of the curriculum.
    """
    labels, opponents = list(students), ratings.opponents
    pairs = [(one, two) for n, one in enumerate(labels) for two in (*labels[:n], *opponents)]
    if ratings.among:
        pairs += [(one, two) for n, one in enumerate(opponents) for two in opponents[:n]]
    games = tuple(
        GameSpec(teams, *pair, match, swapped)
        for teams in ratings.sets
        for match in range(ratings.battles // 2)
        for pair in pairs
        for swapped in (False, True)
    )
    players = {name: name for name in opponents} | dict(students)
    return BattleOrder(players, games, stable_seed(seed, "rating"), players)


def imitated_labels(stage: Stage, players: Mapping[str, StagePlayer]) -> tuple[str, ...]:
    """Labels of the players whose decisions are imitated; empty for all."""
    return _labels(players[COACH]) if stage.learn == COACH else ()


def teachers(stage: Stage, players: Mapping[str, StagePlayer]) -> tuple[str, ...]:
    """Labels of the student's teachers: the coach, or all other players."""
    if stage.learn == COACH:
        return (players[COACH].label,)
    named = [name for pair, _ in stage.weighted() for name in pair if name != STUDENT]
    named += [COACH] if stage.advice else []
    return tuple(dict.fromkeys(players[name].label for name in named))
