"""Choice of opponents: probabilities worked out by hand, shares of tasks, turns of the agents."""

from __future__ import annotations

from collections import Counter

import pytest

from palaver.trainers.config.league import LeagueConfig
from palaver.trainers.league.matchmaking import Pairing, matches, pfsp, probabilities
from palaver.trainers.league.pool import Points, PoolMember

AGENTS = ("p1", "p2")
FIXED = PoolMember("scripted:uniform", "scripted:uniform", fixed=True)
PAST = [PoolMember(f"main@{step}", "main", step) for step in (0, 10, 20)]
EXPLOITERS = [PoolMember(f"exploiter-1@{step}", "exploiter-1", step) for step in (10, 20)]
POOL = [FIXED, *PAST, *EXPLOITERS]


def test_pfsp_prefers_opponents_that_win():
    # (1 - .9)^2, (1 - .5)^2, (1 - 0)^2 = .01, .25, 1; sum 1.26
    assert pfsp([0.9, 0.5, 0.0]) == pytest.approx([0.01 / 1.26, 0.25 / 1.26, 1 / 1.26])
    assert pfsp([1.0, 1.0]) == [0.5, 0.5]


def test_an_opponent_that_was_not_met_counts_as_equal():
    # unknown: (1/2)^2 = .25; beaten always: 0
    assert probabilities([FIXED, PAST[0]], {FIXED.name: 1.0}, "pfsp") == [0.0, 1.0]
    assert probabilities([FIXED, PAST[0]], {FIXED.name: 0.0}, "pfsp") == pytest.approx([0.8, 0.2])


def test_latest_takes_the_last_of_each_line():
    assert probabilities(POOL, {}, "latest") == pytest.approx([1 / 3, 0, 0, 1 / 3, 0, 1 / 3])
    assert probabilities(POOL, {}, "uniform") == pytest.approx([1 / 6] * 6)


@pytest.mark.parametrize(("share", "played"), [(0.0, 12), (0.25, 9), (0.5, 6), (1.0, 0)])
def test_share_of_self_play_is_exact_where_it_is_a_whole_number(share, played):
    config = LeagueConfig(self_play=share)
    for step in range(1, 30):
        pairings = matches(config, POOL, {}, AGENTS, 12, seed=step, step=step)
        assert len(pairings) == 12
        assert sum(match != Pairing() for match in pairings) == played
        assert all(bool(match.agent) == bool(match.opponent) for match in pairings)


def test_share_is_met_on_average_where_it_is_not():
    config = LeagueConfig(self_play=0.5)
    counts = [sum(match != Pairing() for match in matches(config, POOL, {}, AGENTS, 3, s, s)) for s in range(2000)]
    assert set(counts) == {1, 2}
    assert sum(counts) / len(counts) == pytest.approx(1.5, abs=0.05)  # 4.5 standard errors of .5 / sqrt(2000)


def test_agents_take_turns_and_opponents_have_as_many_tasks():
    config = LeagueConfig(self_play=0.0, per_step=2)
    pairings = matches(config, POOL, {}, AGENTS, 8, seed=3, step=1)
    opponents = Counter(match.opponent for match in pairings)
    assert set(opponents.values()) <= {4, 8}  # two draws of the same member are one opponent
    assert Counter(match.agent for match in pairings) == {"p1": 4, "p2": 4}
    single = [matches(config, POOL, {}, AGENTS, 1, seed=step, step=step)[0].agent for step in range(4)]
    assert single == ["p1", "p2", "p1", "p2"]


def test_an_empty_pool_is_self_play():
    assert matches(LeagueConfig(self_play=0.0), [], {}, AGENTS, 4, seed=0, step=1) == [Pairing()] * 4


def test_draws_follow_the_probabilities():
    config = LeagueConfig(self_play=0.0, per_step=1, matchmaking="pfsp")
    scores = {"a": 0.5, "b": 0.0}  # 1/4 and 1
    pool = [PoolMember("a", "a"), PoolMember("b", "b")]
    drawn = Counter(matches(config, pool, scores, AGENTS, 1, seed, 1)[0].opponent for seed in range(4000))
    assert drawn["b"] / 4000 == pytest.approx(0.8, abs=0.03)  # 4.7 standard errors


def test_scores_forget():
    score = Points()
    for points in (1.0, 0.0, 0.5):
        score.add(points)
    assert (score.tasks, score.mean) == (3, pytest.approx(0.5))  # a plain mean at first
    for _ in range(200):
        score.add(1.0)
    assert score.mean > 0.999
    score.add(0.0)
    assert score.mean == pytest.approx(0.95, abs=0.001)  # then 1 in 20
