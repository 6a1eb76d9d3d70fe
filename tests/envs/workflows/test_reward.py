"""Who is paid and when: numbers worked out by hand, and those of the study of MAPoRL's code."""

from __future__ import annotations

import pytest

from palaver.envs.workflows import reward
from palaver.envs.workflows import reward as shaping
from palaver.envs.workflows.rules import agreed, majority, pseudo_labels

V = [[0.2, 0.9], [0.8, 0.7], [1.0, 0.6]]  # turn by agent


def near(found, expected):
    assert len(found) == len(expected)
    for row, wanted in zip(found, expected, strict=True):
        assert row == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize(
    ("who", "expected"),
    [
        ("own", [0.2, 0.9, None]),
        ("mean", [0.55] * 3),  # (0.2 + 0.9) / 2
        ("sum", [1.1] * 3),
        ("max", [0.9] * 3),
        ("last", [0.9] * 3),
        ("aggregator", [0.4] * 3),
    ],
)
def test_who(who, expected):
    found = reward.shared([0.2, 0.9, None], [0.2, 0.9, None], 0.4, who)
    assert found == [value if value is None else pytest.approx(value) for value in expected]


def test_verdicts_are_paid_to_their_own_seat_alone():
    for who in ("mean", "sum", "max", "last", "aggregator"):
        assert reward.shared([None, 1.0], [None, None], None, who) == [None, None]
    assert reward.shared([None, 1.0], [None, None], None, "own") == [None, 1.0]


def test_the_last_who_answered_and_not_the_best():
    assert reward.shared([0.9, 0.2], [0.9, 0.2], None, "last") == [0.2, 0.2]


def test_each_last_accumulated():
    near(reward.per_turn([[0.2, None], [0.8, 0.7]]), [[0.2, 0.0], [0.8, 0.7]])
    near(reward.last(V), [[0, 0], [0, 0], [1.0, 0.6]])
    near(reward.last([[0.2, None], [None, 0.7]]), [[0, 0], [0.2, 0.7]])  # each seat's newest
    near(reward.accumulated(V), [[2.0, 2.2], [1.8, 1.3], [1.0, 0.6]])  # 0.2 + 0.8 + 1.0 and so on


def test_influence_aware_score():
    """The golden numbers of the study: for turn 0, agent 0, (0.2 + 0.3 * 0.75 + 0.09 * 0.8) / 1.39 = 0.357554."""
    team = [reward.shared(row, row, None, "mean") for row in V]
    near(reward.influence(V, team, 0.3), [[0.357554, 0.861151], [0.8, 0.723077], [1.0, 0.6]])
    # of each alone: (0.2 + 0.3 * 0.8 + 0.09 * 1.0) / 1.39, (0.9 + 0.3 * 0.7 + 0.09 * 0.6) / 1.39;
    # (0.8 + 0.3 * 1.0) / 1.3, (0.7 + 0.3 * 0.6) / 1.3
    near(reward.influence(V, V, 0.3), [[0.381295, 0.837410], [0.846154, 0.676923], [1.0, 0.6]])
    near(reward.influence(V, team, 0.0), V)


def test_influence_of_one_who_only_talks_is_what_follows():
    own = [[None, None], [1.0, 0.0], [0.0, 0.0]]
    near(reward.influence(own, own, 0.5), [[2 / 3, 0.0], [2 / 3, 0.0], [0.0, 0.0]])  # (0.5 + 0) / (0.5 + 0.25)


def test_margin_and_quality():
    """By hand with weight 0.5. Own: Q of agent 0 is 0.2, then 0.5; of agent 1 0.9, then 0.8."""
    near(shaping.margin(V, 0.5, "own"), [[0, 0], [0.3, -0.1], [0.25, -0.1]])
    # Q + R - 1: 0.2 + 0.8 - 1 = 0 and 0.9 + 0.7 - 1 = 0.6; 0.5 + 1 - 1 = 0.5 and 0.8 + 0.6 - 1 = 0.4
    near(shaping.quality(V, 0.5, "own"), [[0, 0], [0.0, 0.3], [0.25, 0.2]])
    # all: Q is 0.55, then (0.2 + 0.9 + 0.8 + 0.7) / 4 = 0.65
    near(shaping.margin(V, 0.5, "all"), [[0, 0], [0.125, 0.075], [0.175, -0.025]])
    near(shaping.outcome(V, 0.5), [[0.5, 0.3], [0.5, 0.3], [0, 0]])


def test_influence_sign_looks_at_the_others_alone():
    # agent 1 falls from 0.9 to 0.7 to 0.6; agent 0 rises from 0.2 to 0.8 to 1.0
    near(shaping.influence_sign(V, 0.2), [[-0.2, 0.2], [-0.2, 0.2], [0, 0]])
    near(shaping.influence_sign([[0, 1.0, 0], [1, 1.0, 0]], 0.2), [[0, 0.2, 0.2], [0, 0, 0]])


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        # (own, other) before and after; alpha = (1, 2, 4, 8); expected for agent 0: (turn 0, turn 1)
        ((0, 0), (1, 0), (0, 2)),  # found out alone
        ((0, 1), (1, 1), (0, 1)),  # persuaded rightly
        ((1, 0), (0, 0), (0, -2)),  # lost it alone
        ((1, 1), (0, 1), (0, -1)),
        ((1, 0), (1, 1), (8, 0)),  # right, and the other became right: paid, where the released code takes away
        ((0, 0), (0, 1), (4, 0)),  # the other became right all the same
        ((1, 1), (1, 0), (-4, 0)),  # the other became wrong against the own answer
        ((0, 1), (0, 0), (-8, 0)),  # the other was misled to the own wrong answer
        ((1, 1), (1, 1), (0, 0)),
    ],
)
def test_incentives_in_the_sense_intended(before, after, expected):
    found = shaping.incentive([list(map(float, before)), list(map(float, after))], (1, 2, 4, 8))
    assert (found[0][0], found[1][0]) == expected


def test_a_mean_of_one_half_is_not_right():
    scores = [[0.0, 1.0, 0.0], [1.0, 1.0, 0.0]]
    assert shaping.incentive(scores, (1, 2, 4, 8))[1][0] == 2  # the others' mean was 0.5: it found out alone


def test_votes():
    assert majority([]) == majority(["", ""])
    assert majority(["a", "b", "b", "a"]).key == "a"  # ties: the answer given first
    assert majority(["a", "b", "b", "a"]).tied
    assert majority(["", "b", "", ""]).share == 0.25
    assert pseudo_labels(["a", "b", "b", ""]) == [0.0, 1.0, 1.0, 0.0]
    assert pseudo_labels(["", ""]) == [0.0, 0.0]
    assert agreed(["a", "a", "a", "b"], 0.75)
    assert not agreed(["a", "a", "a", ""], 0.8)
