"""Gates and guards between stages. Pure functions of the games played."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from palaver.core import ConfigError
from palaver.trainers.curriculum.config import Gate, Guard
from palaver.trainers.curriculum.state import GateCondition
from palaver.trainers.matches.results import GameResult
from palaver.trainers.matches.standings import PairTable, Standings, scores_by_match
from palaver.utils.stats.intervals import student_quantile


def passes(gate: Gate, standings: Standings, student: str, labels: Mapping[str, str]) -> list[GateCondition]:
    """Check the conditions of a gate.

    A score passes if it, or with `sure` the lower end of its interval, reaches the threshold. A rating passes if it is
    that much above the other's, and with `sure` if also the two intervals do not overlap.

    Args:
        gate: of the stage.
        standings: of an arena in which the student met all of them.
        student: its label.
        labels: player labels of `previous` and of the names of stages.
    """
    tables = {table.teamset: table for table in standings.tables}
    checks = []
    for teamset in gate.teams or (standings.tables[0].teamset,):
        if (table := tables.get(teamset)) is None:
            raise ConfigError(f"no game was played on the team set {teamset!r}")
        checks += [_score(gate, table, student, labels.get(name, name), least) for name, least in gate.score.items()]
        checks += [_above(gate, table, student, labels.get(name, name), by) for name, by in gate.above.items()]
    return checks


def _score(gate: Gate, table: PairTable, student: str, opponent: str, least: float) -> GateCondition:
    cell = table.cells[student, opponent]
    sure = ", surely" if gate.sure else ""
    asks = f"score {100 * least:g} % against {opponent} on {table.teamset}{sure}"
    return GateCondition(asks, cell.score, cell.low, cell.high, (cell.low if gate.sure else cell.score) >= least)


def _above(gate: Gate, table: PairTable, student: str, opponent: str, by: float) -> GateCondition:
    ratings = {rating.player: rating for rating in table.ratings}
    mine, theirs = ratings[student], ratings[opponent]
    gain = mine.elo - theirs.elo
    disjoint = mine.low > theirs.high
    sure = ", intervals apart" if gate.sure else ""
    asks = f"{by:+g} Elo on {opponent} on {table.teamset}{sure}"
    return GateCondition(
        asks, gain, mine.low - theirs.high, mine.high - theirs.low, gain >= by and (disjoint or not gate.sure)
    )


def guard_condition(
    guard: Guard, games: Sequence[GameResult], student: str, before: str, opponents: Sequence[str]
) -> GateCondition:
    """Check that the student's score on the guard's team set did not drop by more than allowed.

    Both have played the same matches, so the drop is the mean of the differences by match, over both sides and the
    opponents, with Student's interval for paired samples (Student, The probable error of a mean, 1908).
    """
    on_set = [played for played in games if played.game.teamset == guard.teams]
    one, two = (_scores(on_set, name, opponents) for name in (before, student))
    both = sorted(set(one) & set(two))
    if not both:
        raise ConfigError(f"no match of {before} and {student} on the team set {guard.teams!r} counts")
    drop, half = paired([one[match] - two[match] for match in both])
    low, high = (None, None) if half is None else (drop - half, drop + half)
    asks = f"at most {100 * guard.drop:g} points below {before} on {guard.teams}"
    return GateCondition(asks, drop, low, high, drop <= guard.drop)


def _scores(games: Sequence[GameResult], player: str, opponents: Sequence[str]) -> dict[int, float]:
    players = {player, *opponents}
    return scores_by_match([played for played in games if {played.game.first, played.game.second} <= players], player)


def paired(differences: Sequence[float]) -> tuple[float, float | None]:
    """Mean of paired differences and half its 95 % interval, t s / √n; None for fewer than two.

    >>> mean, half = paired([1.0, 2.0, 3.0])
    >>> mean, round(half, 4)  # t is 4.3027 with two degrees of freedom
    (2.0, 2.4841)
    """
    values = np.asarray(differences, dtype=np.float64)
    count = len(values)
    if count < 2:
        return float(values.mean()), None
    return float(values.mean()), student_quantile(count - 1) * float(values.std(ddof=1)) / math.sqrt(count)
