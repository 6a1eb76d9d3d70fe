"""Gates and guards against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest

from palaver.core import ConfigError
from palaver.trainers.curriculum.config import Gate, Guard
from palaver.trainers.curriculum.gates import guard_condition, paired, passes
from palaver.trainers.matches.config import GameSpec
from palaver.trainers.matches.results import GameResult, PlayerStats
from palaver.trainers.matches.standings import standings


def game(first, second, match, swapped, score, teams="a"):
    share = PlayerStats(1, 0, 0.0)
    return GameResult(GameSpec(teams, first, second, match, swapped), "t", score, 1, "terminated", (share, share), 0.0)


def arena(wins, matches=50):
    """`new` takes `wins` of its matches against `old` and half of those against `weak`, both games of each."""
    played = [game("new", "old", n, swapped, float(n < wins)) for n in range(matches) for swapped in (False, True)]
    played += [game("new", "weak", n, swapped, float(n % 2)) for n in range(matches) for swapped in (False, True)]
    return played, standings(played, ["new", "old", "weak"], "old")


def test_a_score_must_be_surely_reached():
    _, found = arena(45)
    # 90 of 100 points. Both games of a match end alike, so the effect is 2 (50/49 of it, cut at 2) and 50 games count.
    # Wilson of 45 in 50 with z = 1.96: (0.9 + 0.0384 -+ 1.96 sqrt(0.0018 + 0.000384)) / 1.0768 = 0.786, 0.957
    sure, plain = (passes(Gate(score={"old": 0.85}, sure=sure), found, "new", {})[0] for sure in (True, False))
    assert sure.found == plain.found == pytest.approx(0.9)
    assert (sure.low, sure.high) == pytest.approx((0.786, 0.957), abs=2e-3)
    assert (sure.passed, plain.passed) == (False, True)
    assert passes(Gate(score={"old": 0.78}), found, "new", {})[0].passed
    assert not passes(Gate(score={"old": 0.91}, sure=False), found, "new", {})[0].passed


def test_a_rating_must_be_apart():
    _, found = arena(45)
    gain = found.tables[0].ratings[0].elo - 1000
    assert gain == pytest.approx(400 * math.log10(9), abs=30)  # 382, less what the penalty takes
    found_checks = passes(Gate(above={"previous": 200, "weak": 0}), found, "new", {"previous": "old"})
    assert [check.passed for check in found_checks] == [True, False], "against weak it is even"
    assert found_checks[0].found == pytest.approx(gain)
    assert found_checks[0].low <= gain <= found_checks[0].high
    assert not passes(Gate(above={"old": 500}, sure=False), found, "new", {})[0].passed
    _, close = arena(27)  # 54 %: 28 Elo, and intervals of some 100
    assert passes(Gate(above={"old": 0}, sure=False), close, "new", {})[0].passed
    assert not passes(Gate(above={"weak": -1000}), close, "new", {})[0].passed


def test_no_condition_passes():
    _, found = arena(10)
    assert passes(Gate(), found, "new", {}) == []
    with pytest.raises(ConfigError, match="no game was played on the team set 'b'"):
        passes(Gate(score={"old": 0.1}, teams=("b",)), found, "new", {})


def test_a_guard_compares_the_same_matches():
    before = [game("before", "x", n, s, score, "g") for n, score in enumerate((1, 1, 0, 1)) for s in (False, True)]
    # the student sits second in these: its score is one less the first's
    student = [
        game("x", "student", n, s, 1 - score, "g") for n, score in enumerate((1, 0, 0, 0.5)) for s in (False, True)
    ]
    other = [game("student", "x", 0, False, 1.0, "elsewhere"), game("student", "y", 0, False, 1.0, "g")]
    games = [*before, *student, *other]
    check = guard_condition(Guard(teams="g", drop=0.4), games, "student", "before", ["x"])
    # differences 0, 1, 0, 0.5: mean 0.375, s = 0.47871, half = 3.1824 * 0.47871 / 2 = 0.76173
    assert check.found == pytest.approx(0.375)
    assert (check.low, check.high) == pytest.approx((-0.38673, 1.13673), abs=1e-4)
    assert check.passed
    assert not guard_condition(Guard(teams="g", drop=0.3), games, "student", "before", ["x"]).passed
    with pytest.raises(ConfigError, match="no match of before and student"):
        guard_condition(Guard(teams="h"), games, "student", "before", ["x"])


def test_one_difference_has_no_interval():
    assert paired([0.5]) == (0.5, None)
