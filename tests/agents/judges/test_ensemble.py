"""Several judges as one: the mean, the one held out, and who failed."""

from __future__ import annotations

import json

import pytest

from palaver.agents.base.chat import Answer
from palaver.agents.judges.judge import Ensemble
from palaver.scoring import AnswerPair, Cost
from tests.agents.judges.scripted import case, fair, judge


def says(clear, short):
    return lambda *_: json.dumps({"clear": {"choice": clear}, "short": {"choice": short}})


def fails(*_):
    return Answer("", failure="timeout")


def test_the_mean_counts_and_the_holdout_is_told():
    made = Ensemble([judge(), judge(says("yes", "no"))], judge(says("no", "yes")))
    (verdict,) = made.score([case("fair")])
    # members: (1.5 + 1) / 4 = 0.625 and 3 / 4; the judge held out: 1 / 4
    assert verdict.score == pytest.approx(0.6875)
    assert verdict.metrics == pytest.approx({"spread": 0.125, "holdout": 0.25, "holdout_gap": 0.4375})
    assert verdict.criteria == {"clear": 0.75, "short": 0.5}
    assert verdict.cost == Cost(30, 6, 1.5, 3)


def test_a_member_that_fails_leaves_the_case_unscored_and_a_holdout_does_not():
    (verdict,) = Ensemble([judge(), judge(fails)]).score([case("good")])
    assert (verdict.score, verdict.failure) == (None, "timeout")
    (verdict,) = Ensemble([judge()], judge(fails)).score([case("good")])
    assert (verdict.score, verdict.metrics) == (1.0, {"spread": 0.0})


def test_preferences_are_averaged():
    tie = judge(lambda *_: json.dumps({"better": "tie"}))
    (preference,) = Ensemble([judge(), tie], judge(fails)).compare([AnswerPair("p", "good", "poor")])
    assert (preference.first, preference.orders) == (0.75, (0.75, 0.75))
    (preference,) = Ensemble([judge(), judge(fails)]).compare([AnswerPair("p", "good", "poor")])
    assert (preference.first, preference.failure) == (None, "timeout")


def test_what_members_tell_is_averaged():
    made = Ensemble([judge(), judge(lambda c, s: fair(c, s) if "again" in c[1].content.lower() else "x")])
    made.score([case("good")])
    assert made.metrics() == {"cache_hits": 0.0, "unread": 0.25}
