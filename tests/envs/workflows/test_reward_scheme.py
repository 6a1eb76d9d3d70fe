"""What the newest turn pays: at once, at the end, with penalties; what was paid is what was earned."""

from __future__ import annotations

import itertools
import math

import pytest

from palaver.core import ConfigError
from palaver.envs.workflows.builtin import workflow
from palaver.envs.workflows.reward_scheme import (
    RewardScheme,
    TurnScores,
    most_possible,
    parse_reward_scheme,
    penalties,
    shaped_rewards,
    turn_rewards,
)

NONE = ({}, {})
TURNS = [TurnScores((0.2, 0.9), (0.2, 0.9), 0.9, NONE), TurnScores((0.8, 0.7), (0.8, 0.7), 0.8, NONE)]


def totals(turns, reward_scheme):
    return [
        [
            round(math.fsum(part.values()), 6)
            for part in shaped_rewards(turns[: n + 1], reward_scheme, n + 1 == len(turns))
        ]
        for n in range(len(turns))
    ]


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, [[0.55, 0.55], [0.75, 0.75]]),
        ({"who": "own"}, [[0.2, 0.9], [0.8, 0.7]]),
        ({"who": "aggregator"}, [[0.9, 0.9], [0.8, 0.8]]),
        ({"who": "own", "when": "last"}, [[0, 0], [0.8, 0.7]]),
        # own accumulated: 1.0 + 0.8 and 1.6 + 0.7, known at the end
        ({"who": "own", "when": "accumulated"}, [[0, 0], [1.8, 2.3]]),
        # (0.2 + 0.3 * 0.75) / 1.3 + 0.8 and (0.9 + 0.3 * 0.75) / 1.3 + 0.7
        ({"when": "influence"}, [[0, 0], [1.126923, 1.565385]]),
        # margin with the own earlier score: 0.5 * 0.6 and 0.5 * -0.2, at once
        ({"who": "own", "shaping": "margin"}, [[0.2, 0.9], [1.1, 0.6]]),
        ({"who": "own", "when": "last", "shaping": "margin"}, [[0, 0], [1.1, 0.6]]),
        (
            {"who": "own", "shaping": "margin", "outcome": 0.5},
            [[0, 0], [1.7, 1.85]],
        ),  # 1.0 + 0.3 + 0.4, 1.6 - 0.1 + 0.35
        ({"who": "own", "shaping": "influence"}, [[0, 0], [0.8, 1.8]]),  # the other falls: -0.2; rises: +0.2
    ],
)
def test_paid(settings, expected):
    assert totals(TURNS, parse_reward_scheme(settings)) == expected


@pytest.mark.parametrize(
    ("who", "when", "added"),
    list(
        itertools.product(
            ("own", "mean", "sum", "max", "last", "aggregator"),
            ("each", "last", "accumulated", "influence"),
            ("none", "margin", "quality", "influence", "incentive"),
        )
    ),
)
def test_what_is_paid_is_what_was_earned(who, when, added):
    reward_scheme = RewardScheme(who=who, when=when, shaping=added, outcome=0.25)
    turns = [*TURNS, TurnScores((None, 1.0), (None, None), None, NONE), TurnScores((0.1, None), (0.1, None), 0.1, NONE)]
    if not reward_scheme.late:
        return
    told = [[math.fsum(part.values()) for part in row] for row in turn_rewards(turns, reward_scheme)]
    given = totals(turns, reward_scheme)
    for seat in range(2):
        assert sum(row[seat] for row in given) == pytest.approx(sum(row[seat] for row in told), abs=1e-5)
        assert all(row[seat] == 0.0 for row in given[:-1])


def test_penalties():
    reward_scheme = RewardScheme(no_answer=2, format=0.5, length=1, words=4)
    assert penalties(reward_scheme, "answer", "a b c d", True, True) == {"no_answer": 0, "format": 0, "length": 0}
    # six words are half as many again as four
    assert penalties(reward_scheme, "answer", "a b c d e f", False, False) == {
        "no_answer": -2,
        "format": -0.5,
        "length": -0.5,
    }
    assert penalties(reward_scheme, "answer", "a " * 99, True, True)["length"] == -1
    assert penalties(reward_scheme, "talk", "", False, False) == {"length": 0}
    assert penalties(reward_scheme, "verdict", "", False, False) == {"no_answer": -2, "length": 0}
    assert penalties(RewardScheme(), "answer", "", False, False) == {}


def test_penalties_are_paid_at_once_even_where_scores_wait():
    turns = [TurnScores((1.0, 1.0), (1.0, 1.0), 1.0, ({"format": -0.5}, {"format": 0.0}))]
    assert shaped_rewards(turns, RewardScheme(when="influence"), False) == [
        {"score": 0, "format": -0.5},
        {"score": 0, "format": 0},
    ]


@pytest.mark.parametrize(
    ("name", "settings", "expected"),
    [
        ("debate", {}, 2.0),  # two rounds of mean 1
        ("debate", {"who": "sum"}, 4.0),
        ("debate", {"when": "last"}, 1.0),
        ("debate", {"when": "accumulated"}, 3.0),  # 2 + 1
        ("debate", {"when": "influence"}, 2.0),
        ("summary", {"who": "own"}, 1.0),  # each speaks once
        ("summary", {"who": "aggregator"}, 1.0),  # only the aggregator's turn decides
        ("verify", {"who": "own"}, 1.0),
        ("verify", {}, 2.0),  # the verdict's turn pays no mean
        ("debate", {"shaping": "margin"}, None),
    ],
)
def test_the_most_that_is_possible(name, settings, expected):
    made = workflow(name)
    assert most_possible(made.stages, made.agents, made.final, parse_reward_scheme(settings)) == expected


@pytest.mark.parametrize(
    "given",
    [{"who": "all"}, {"whom": "own"}, {"discount": 2}, {"no_answer": -1}, {"alpha": [1]}, {"words": 0},
     {"alpha": [float("nan"), 0, 0, 0]}, 7, "mean"],
)  # fmt: skip
def test_settings_that_do_not_fit(given):
    with pytest.raises(ConfigError, match="reward_scheme: ") as caught:
        parse_reward_scheme(given)
    assert "\n" not in str(caught.value)
