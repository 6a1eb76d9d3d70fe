"""The arena's statistics: textbook numbers, and tournaments between players whose strengths are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from palaver.core import ConfigError
from palaver.utils import ratings
from palaver.utils.ratings import PairedResults, common_effect, rate
from palaver.utils.stats.effects import effect, games_for, score_interval, wilson

LN10 = math.log(10)


def tournament(elos, matches, generator, *, ties=0.0, side=0.0, alike=0.0):
    """Games by the model of Bradley and Terry: `ties` of even games are tied, the first seat is worth `side` in
    log-odds, and the second game of a match repeats the first with probability `alike`.
    """
    pairs = np.array([(a, b) for a in range(len(elos)) for b in range(a + 1, len(elos))])
    points = np.zeros((len(pairs), matches))
    for row, (a, b) in enumerate(pairs):
        results = []
        for bonus in (side, -side):
            p = 1 / (1 + 10 ** (-(elos[a] - elos[b]) / 400) * math.exp(-bonus))
            tie = ties * 4 * p * (1 - p)
            draw = generator.random(matches)
            results.append(np.where(draw < p - tie / 2, 1.0, np.where(draw < p + tie / 2, 0.5, 0.0)))
        again = generator.random(matches) < alike
        points[row] = results[0] + np.where(again, results[0], results[1])
    return PairedResults(tuple(f"p{n}" for n in range(len(elos))), pairs, points, np.full(points.shape, 2.0))


def coverage(elos, matches, repeats, resamples=200, **how):
    """Shares of tournaments whose intervals hold the true ratings, and the true scores of pairings."""
    generator = np.random.default_rng(20261121)
    rated, scored = [], []
    for seed in range(repeats):
        field = tournament(elos, matches, generator, **how)
        found, _ = rate(field, "p0", elos[0], seed=seed, resamples=resamples)
        rated += [each.low <= true <= each.high for each, true in zip(found[1:], elos[1:], strict=True)]
        for (a, b), points, games in zip(field.pairs, field.points, field.games, strict=True):
            low, high = score_interval(points, games)
            scored.append(low <= 1 / (1 + 10 ** (-(elos[a] - elos[b]) / 400)) <= high)
    return float(np.mean(rated)), float(np.mean(scored))


def test_wilson_is_the_textbook_interval():
    for won, games in ((0, 10), (8, 10), (10, 10), (190, 200)):
        found = stats.binomtest(won, games).proportion_ci(method="wilson")
        assert wilson(won, games) == pytest.approx((found.low, found.high), abs=1e-12)
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(50, 100, level=0.99)[0] < wilson(50, 100)[0]


def test_games_that_an_interval_needs():
    assert (games_for(0.10), games_for(0.05), games_for(0.03)) == (97, 385, 1068)  # (1.96 / 2 w)^2, rounded up
    low, high = wilson(200, 400)
    assert games_for((high - low) / 2) == pytest.approx(400 + 1.96**2, abs=2)


def test_games_that_repeat_each_other_count_once():
    points, games = np.array([2.0, 0.0] * 50), np.full(100, 2.0)
    assert effect(points, games) == pytest.approx(2, abs=0.03)
    assert score_interval(points, games) == pytest.approx(wilson(50, 100), abs=2e-3)


def test_games_that_undo_each_other_and_ties_count_for_more_but_not_without_limit():
    always_one_each, games = np.full(100, 1.0), np.full(100, 2.0)
    assert effect(always_one_each, games) == 0.5
    assert score_interval(always_one_each, games) == pytest.approx(wilson(200, 400))
    assert effect(always_one_each[:9], games[:9]) == 1.0  # too few to believe


def test_two_players_have_the_odds_of_their_games():
    pairs = np.array([[0, 1]])
    found = ratings.strengths(np.array([[150.0]]), np.array([[200.0]]), pairs, 2)[0]
    assert found[0] - found[1] == pytest.approx(math.log(150.5 / 50.5), abs=1e-6)  # the penalty shares one game
    assert (found[0] - found[1]) * ratings.ELO == pytest.approx(400 * math.log10(150.5 / 50.5), abs=1e-4)
    assert abs(ratings.ELO * LN10 - 400) < 1e-9


def test_who_never_lost_is_rated_all_the_same():
    found = ratings.strengths(np.array([[40.0], [0.0]]), np.array([[40.0], [40.0]]), np.array([[0, 1]]), 2)
    assert found[0, 0] - found[0, 1] == pytest.approx(math.log(40.5 / 0.5), abs=1e-6)
    assert found[1, 0] - found[1, 1] == pytest.approx(-math.log(40.5 / 0.5), abs=1e-6)


def test_strengths_are_those_that_scores_were_made_of():
    true = np.array([0.8, 0.3, 0.0, -1.1])
    pairs = np.array([(a, b) for a in range(4) for b in range(a + 1, 4)])
    games = np.full((1, 6), 1e6)
    found = ratings.strengths(games * ratings.expected(true, pairs), games, pairs, 4)[0]
    assert found == pytest.approx(true - true.mean(), abs=1e-5)


def test_a_tie_is_half_a_win():
    pairs, games = np.array([[0, 1]]), np.array([[100.0]])
    ties = ratings.strengths(np.array([[50.0]]), games, pairs, 2)
    assert ties == pytest.approx(np.zeros((1, 2)))


def test_who_cannot_be_compared_is_not():
    apart = PairedResults(("a", "b", "c", "d"), np.array([[0, 1], [2, 3]]), np.ones((2, 4)), np.full((2, 4), 2.0))
    with pytest.raises(ConfigError, match="have not met"):
        rate(apart, "a", 1000)
    with pytest.raises(ConfigError, match="anchor 'x' is not among the players a, b"):
        rate(apart, "x", 1000)


def test_a_circle_of_winners_is_over_dispersed():
    pairs, games = np.array([[0, 1], [1, 2], [0, 2]]), np.full(3, 100.0)
    points = np.array([80.0, 80.0, 20.0])
    found = ratings.strengths(points[None], games[None], pairs, 3)[0]
    assert found == pytest.approx(np.zeros(3), abs=1e-6)
    assert ratings.dispersion(points, games, pairs, found, 1.0) == pytest.approx(3 * 30**2 / 25)  # one degree is left
    assert ratings.dispersion(np.full(3, 50.0), games, pairs, found, 1.0) == 1.0
    assert ratings.dispersion(points[:2], games[:2], pairs[:2], found, 1.0) == 1.0  # none is left


def test_over_dispersion_widens_intervals():
    generator = np.random.default_rng(1)
    wins = (generator.random((3, 60, 2)) < np.array([0.8, 0.8, 0.2])[:, None, None]).sum(axis=2).astype(float)
    field = PairedResults(("a", "b", "c"), np.array([[0, 1], [1, 2], [0, 2]]), wins, np.full((3, 60), 2.0))
    found, factor = rate(field, "a", 0)
    even = PairedResults(field.players, field.pairs, np.roll(wins.reshape(-1), 60).reshape(3, 60), field.games)
    narrow, _ = rate(PairedResults(even.players, even.pairs, np.tile([2.0, 0.0], (3, 30)), even.games), "a", 0)
    assert factor > 20
    assert found[1].high - found[1].low > 2 * (narrow[1].high - narrow[1].low)


def test_bounded_where_each_has_taken_points_from_the_other():
    pairs, games = np.array([[0, 1], [1, 2]]), np.array([10.0, 10.0])
    assert ratings.bounded(np.array([10.0, 5.0]), games, pairs, 3, 0) == [True, False, False]
    assert ratings.bounded(np.array([9.5, 5.0]), games, pairs, 3, 0) == [True, True, True]


def test_gxe_is_glickos_expectation_of_an_unknown_opponent():
    assert ratings.gxe(1500, 80) == 50
    q = LN10 / 400
    g = 1 / math.sqrt(1 + 3 * q**2 * (60**2 + 350**2) / math.pi**2)
    assert ratings.gxe(1720, 60) == pytest.approx(100 / (1 + 10 ** (-g * 220 / 400)))
    exponent = (1500 - 1720) * math.pi / math.sqrt(3 * LN10**2 * 60**2 + 2500 * (64 * math.pi**2 + 147 * LN10**2))
    assert ratings.gxe(1720, 60) == pytest.approx(100 / (1 + 10**exponent))  # as the ladder writes it


def test_the_anchor_has_its_rating_and_no_interval():
    field = tournament([0, 100, -100], 40, np.random.default_rng(3))
    for at in (0.0, 1000.0):
        anchor = rate(field, "p1", at, resamples=50)[0][1]
        assert (anchor.elo, anchor.low, anchor.high, anchor.deviation) == (at, at, at, 0)
    one, two = (rate(field, "p1", at, resamples=50)[0][0] for at in (0.0, 1000.0))
    assert two.elo - one.elo == pytest.approx(1000)
    assert two.gxe == pytest.approx(one.gxe)


def test_few_matches_that_happen_to_be_alike_prove_nothing():
    """One win each in each of 2 matches: the deviation is that of 4 games at one half, 1 / sqrt(4 / 4) in log-odds."""
    field = PairedResults(("a", "b"), np.array([[0, 1]]), np.ones((1, 2)), np.full((1, 2), 2.0))
    found = rate(field, "a", 0)[0][1]
    assert found.elo == pytest.approx(0)
    assert found.deviation == pytest.approx(400 / LN10)
    assert (found.low, found.high) == pytest.approx((-1.959964 * 400 / LN10, 1.959964 * 400 / LN10))


def test_deviations_are_those_of_the_information():
    pairs, games = np.array([[0, 1], [1, 2], [0, 2]]), np.array([10.0, 30.0, 20.0])
    found = np.array([0.4, 0.1, -0.5])
    score = ratings.expected(found, pairs)
    w = games * score * (1 - score)
    information = np.array([[w[0] + w[1], -w[1]], [-w[1], w[1] + w[2]]])  # of players 1 and 2, player 0 held
    own = np.sqrt(np.diag(np.linalg.inv(information)))
    assert ratings.deviations(found, games, pairs, 0) == pytest.approx([0, *own])


def test_the_same_seed_gives_the_same_interval():
    field = tournament([0, 150], 30, np.random.default_rng(5))
    assert rate(field, "p0", 0, seed=4, resamples=100) == rate(field, "p0", 0, seed=4, resamples=100)
    assert rate(field, "p0", 0, seed=4, resamples=100) != rate(field, "p0", 0, seed=5, resamples=100)


def test_the_effect_of_a_field_leaves_out_who_never_lost():
    points = np.array([[2.0, 0.0] * 20, [2.0] * 40])
    field = PairedResults(("a", "b", "c"), np.array([[0, 1], [0, 2]]), points, np.full((2, 40), 2.0))
    assert common_effect(field) == pytest.approx(2, abs=0.06)


def test_intervals_hold_what_they_promise():
    rated, scored = coverage([0, 120, -150, 250], 40, 120)
    assert 0.90 <= rated <= 0.98
    assert 0.90 <= scored <= 0.98


@pytest.mark.slow
@pytest.mark.parametrize(
    ("elos", "matches", "how"),
    [
        ([0, 100, -150, 300, -50, 200], 50, {}),
        ([0, 100, -150, 300, -50, 200], 20, {}),
        ([0, 100, -150, 300, -50, 200], 50, {"ties": 0.4}),
        ([0, 100, -150, 300, -50, 200], 50, {"alike": 0.6}),
        ([0, 500, -500, 900], 100, {}),
        ([0, 200], 30, {}),
    ],
)
def test_intervals_hold_what_they_promise_in_many_fields(elos, matches, how):
    rated, scored = coverage(elos, matches, 300, **how)
    assert 0.90 <= rated <= 0.98
    assert 0.90 <= scored <= 0.98


def test_games_that_repeat_each_other_would_break_the_plain_interval():
    """What `effect` is for: at 60 % of repeated games the textbook's interval holds the truth too rarely."""
    generator = np.random.default_rng(8)
    plain, ours = [], []
    for _ in range(400):
        field = tournament([0, 0], 50, generator, alike=0.8)
        low, high = wilson(float(field.points.sum()), 100)
        plain.append(low <= 0.5 <= high)
        low, high = score_interval(field.points[0], field.games[0])
        ours.append(low <= 0.5 <= high)
    assert np.mean(plain) < 0.89
    assert 0.92 <= np.mean(ours) <= 0.98
