"""Tables from games: results by pairing, ratings, and scores on the other team sets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from palaver.core import ConfigError
from palaver.trainers.matches.results import GameResult
from palaver.utils.ratings import PairedResults, Rating, rate
from palaver.utils.stats.effects import score_interval
from palaver.utils.stats.intervals import welch

DEFAULT = "default"  # what the team set is called that no option names
MIDDLE = 1000.0  # Elo of the anchor


@dataclass(frozen=True)
class PairResult:
    """One player against another: games won, tied and lost, the score and its 95 % interval."""

    player: str
    opponent: str
    wins: int
    ties: int
    losses: int
    score: float
    low: float
    high: float

    @property
    def games(self) -> int:
        """All of them."""
        return self.wins + self.ties + self.losses


@dataclass(frozen=True)
class PlayerSummary:
    """Summary of a player: games, wins, ties, losses, mean score over its opponents, decisions.

    With the share of illegal ones (None if the environment does not report it), and milliseconds per decision.
    """

    player: str
    games: int
    wins: int
    ties: int
    losses: int
    score: float
    decisions: int
    illegal: float | None
    ms: float


@dataclass(frozen=True)
class PairTable:
    """One team set.

    Attributes:
        teamset: its name.
        ratings: best first.
        dispersion: φ, above 1 where the pairings differ from what strengths alone explain; it widens the intervals.
        conduct: player -> how it played.
        cells: (player, opponent) -> their games, for both orders.
        truncated: games that an outer limit ended.
        turns: mean of a game.
    """

    teamset: str
    ratings: tuple[Rating, ...]
    dispersion: float
    conduct: Mapping[str, PlayerSummary]
    cells: Mapping[tuple[str, str], PairResult]
    truncated: int
    turns: float

    @property
    def games(self) -> int:
        """That were played on it."""
        return sum(conduct.games for conduct in self.conduct.values()) // 2


@dataclass(frozen=True)
class Gap:
    """A player's mean score on the first team set, on another, and the difference.

    The difference has its 95 % interval (Welch's, over matches; None where there are fewer than two). In a field that
    plays all sets the gaps add up to 0: players above it lose less by the change than others.
    """

    player: str
    teamset: str
    seen: float
    other: float
    gap: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Standings:
    """Everything that is shown of an arena; `provenance` says how it came about."""

    anchor: str
    at: float
    tables: tuple[PairTable, ...]
    gaps: tuple[Gap, ...]
    failed: int
    provenance: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        tables = [
            {
                **asdict(table),
                "games": table.games,
                "cells": [asdict(cell) for cell in table.cells.values()],
                "conduct": [asdict(row) for row in table.conduct.values()],
            }
            for table in self.tables
        ]
        gaps = [asdict(gap) for gap in self.gaps]
        return {
            "anchor": self.anchor,
            "anchor_elo": self.at,
            "tables": tables,
            "gaps": gaps,
            "failed": self.failed,
            **self.provenance,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Standings:
        """Standings of plain data.

        Raises:
            KeyError: something is missing.
            ValueError: something has another form.
        """
        rest = dict(values)
        tables = [
            {
                **table,
                "cells": {(cell["player"], cell["opponent"]): cell for cell in table["cells"]},
                "conduct": {row["player"]: row for row in table["conduct"]},
            }
            for table in rest.pop("tables")
        ]
        return cls(
            anchor=rest.pop("anchor"),
            at=rest.pop("anchor_elo"),
            tables=TypeAdapter(tuple[PairTable, ...]).validate_python(tables),
            gaps=TypeAdapter(tuple[Gap, ...]).validate_python(rest.pop("gaps")),
            failed=rest.pop("failed"),
            provenance=rest,
        )


def standings(
    games: Sequence[GameResult],
    players: Sequence[str],
    anchor: str,
    *,
    at: float = MIDDLE,
    failed: int = 0,
    provenance: Mapping[str, Any] | None = None,
) -> Standings:
    """The tables of the games, team sets in the order of their first game.

    Args:
        games: that count.
        players: the order of rows before they are ranked; games of others are left out.
        anchor: whose rating is `at` on every team set.
        at: in Elo.
        failed: games that do not count.
        provenance: how it came about.

    Raises:
        ConfigError: no games, the anchor has played none, or some players cannot be compared.
    """
    by_set: dict[str, list[GameResult]] = defaultdict(list)
    for played in games:
        if {played.game.first, played.game.second} <= set(players):
            by_set[played.game.teamset].append(played)
    if not by_set:
        raise ConfigError("no game has been finished, so there is nothing to show")
    tables = tuple(_table(teamset, results, players, anchor, at) for teamset, results in by_set.items())
    first, *others = by_set
    gaps = [gap for other in others for gap in _gaps(by_set[first], by_set[other], other, players)]
    return Standings(anchor, at, tables, tuple(gaps), failed, dict(provenance or {}))


def field_of(games: Sequence[GameResult], players: Sequence[str]) -> PairedResults:
    """The games as arrays; players without games are left out."""
    labels = {label for played in games for label in (played.game.first, played.game.second)}
    names = tuple(name for name in players if name in labels)
    pairs = sorted({_pair(played, names) for played in games})
    matches = sorted({played.game.match for played in games})
    row, column = ({key: n for n, key in enumerate(keys)} for keys in (pairs, matches))
    points, counts = np.zeros((len(pairs), len(matches))), np.zeros((len(pairs), len(matches)))
    for played in games:
        pair = _pair(played, names)
        at = row[pair], column[played.game.match]
        points[at] += played.score if names[pair[0]] == played.game.first else 1 - played.score
        counts[at] += 1
    return PairedResults(names, np.array(pairs, dtype=np.intp), points, counts)


def _pair(played: GameResult, names: Sequence[str]) -> tuple[int, int]:
    low, high = sorted((names.index(played.game.first), names.index(played.game.second)))
    return low, high


def _table(teamset: str, games: Sequence[GameResult], players: Sequence[str], anchor: str, at: float) -> PairTable:
    field = field_of(games, players)
    ratings, dispersion = rate(field, anchor, at)
    cells = _cells(games, field)
    return PairTable(
        teamset=teamset or DEFAULT,
        ratings=tuple(sorted(ratings, key=lambda rating: -rating.elo)),
        dispersion=dispersion,
        conduct={name: _conduct(name, games, cells) for name in field.players},
        cells=cells,
        truncated=sum(played.stop == "truncated" for played in games),
        turns=float(np.mean([played.turns for played in games])),
    )


def _cells(games: Sequence[GameResult], field: PairedResults) -> dict[tuple[str, str], PairResult]:
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0, 0, 0])
    for played in games:
        one, two = played.game.first, played.game.second
        kind = 1 if played.score == 0.5 else 0 if played.score > 0.5 else 2
        counts[one, two][kind] += 1
        counts[two, one][2 - kind] += 1
    cells = {}
    for (a, b), points, played_games in zip(field.pairs, field.points, field.games, strict=True):
        for one, two, own_points in ((a, b, points), (b, a, played_games - points)):
            names = field.players[one], field.players[two]
            low, high = score_interval(own_points, played_games)
            wins, ties, losses = counts[names]
            score = float(own_points.sum() / played_games.sum())
            cells[names] = PairResult(*names, wins, ties, losses, score, low, high)
    return cells


def _conduct(name: str, games: Sequence[GameResult], cells: Mapping[tuple[str, str], PairResult]) -> PlayerSummary:
    player_cells = [cell for cell in cells.values() if cell.player == name]
    shares = [
        share
        for played in games
        for label, share in zip((played.game.first, played.game.second), played.did, strict=True)
        if label == name
    ]
    decisions = sum(share.decisions for share in shares)
    illegal_counts = [share.illegal for share in shares if share.illegal is not None]
    return PlayerSummary(
        player=name,
        games=sum(cell.games for cell in player_cells),
        wins=sum(cell.wins for cell in player_cells),
        ties=sum(cell.ties for cell in player_cells),
        losses=sum(cell.losses for cell in player_cells),
        score=float(np.mean([cell.score for cell in player_cells])),
        decisions=decisions,
        illegal=sum(illegal_counts) / max(decisions, 1) if len(illegal_counts) == len(shares) else None,
        ms=sum(share.ms for share in shares) / max(decisions, 1),
    )


def _gaps(seen: Sequence[GameResult], other: Sequence[GameResult], name: str, players: Sequence[str]) -> list[Gap]:
    gaps = []
    for player in players:
        first_scores, second_scores = (
            np.array(list(scores_by_match(games, player).values())) for games in (seen, other)
        )
        if not len(first_scores) or not len(second_scores):
            continue
        a, b = float(first_scores.mean()), float(second_scores.mean())
        low, high = welch(first_scores, second_scores) or (None, None)
        low, high = (None, None) if low == high else (low, high)  # nothing varies
        gaps.append(Gap(player, name or DEFAULT, a, b, a - b, low, high))
    return gaps


def scores_by_match(games: Sequence[GameResult], player: str) -> dict[int, float]:
    """Match -> mean score of a player in it, over both sides and all opponents."""
    scores: dict[int, list[float]] = defaultdict(list)
    for played in games:
        if player == played.game.first:
            scores[played.game.match].append(played.score)
        elif player == played.game.second:
            scores[played.game.match].append(1 - played.score)
    return {match: float(np.mean(match_scores)) for match, match_scores in scores.items()}
