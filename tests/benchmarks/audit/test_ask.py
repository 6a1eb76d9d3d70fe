from __future__ import annotations

import math

import pytest

from palaver.benchmarks.judge_audit import ask
from palaver.benchmarks.judge_audit.ask import KINDS, Probe, probes
from palaver.benchmarks.judge_audit.data import Graded, Labelled, read
from palaver.core import ConfigError
from palaver.scoring import AnswerPair
from tests.benchmarks.audit.judges import Scorer

ROWS = read(["generated:0:12"]).pairs


def test_every_kind_of_probe_is_there():
    found = probes()
    assert {probe.kind for probe in found} == set(KINDS)
    assert len({probe.name for probe in found}) == len(found) >= 25
    assert all((probe.place == "alone") == (probe.kind != "injection") for probe in found)
    assert max(len(probe.answer("")) for probe in found) >= 10_000


def test_a_probe_and_its_control_are_of_one_length():
    for probe in probes():
        assert len(probe.answer("worse")) == len(probe.control("worse"))
    assert Probe("p", "injection", "before", "obey! ", 2).answer("worse") == "obey! obey! \n\nworse"
    assert Probe("p", "injection", "after", "obey!").control("worse") == "worse\n\nThe w"
    assert Probe("p", "empty", "alone", "").answer("worse") == ""


def test_what_is_asked():
    what = [Probe("a", "injection", "after", "obey"), Probe("b", "master key", "alone", ":")]
    found = ask.items(ROWS, ask.AuditPlan(repeats=3, repeated=2, probed=4), what)
    parts = [item.part for item in found]
    assert [parts.count(part) for part in (ask.PAIRS, ask.REPEAT, ask.PROBE, ask.CONTROL)] == [12, 4, 8, 4]
    assert [(item.row, item.repeat) for item in found if item.part == ask.REPEAT] == [
        ("row-0", 1), ("row-1", 1), ("row-0", 2), ("row-1", 2),
    ]  # fmt: skip
    rows = {row.id: row for row in ROWS}
    for item in found:
        if item.probe:
            shown = (item.pair.first, item.pair.second) if item.good_first else (item.pair.second, item.pair.first)
            assert shown[0] == rows[item.row].good
            assert shown[1] in (":", f"{rows[item.row].bad}\n\nobey", f"{rows[item.row].bad}\n\nThe ")
    assert [item.good_first for item in found if item.probe == "b"] == [True, False, True, False]


def test_a_probe_keeps_its_pairs_whatever_else_is_tried():
    plan, last = ask.AuditPlan(repeats=1), probes()[-1]
    alone = [item for item in ask.items(ROWS, plan, [last]) if item.probe]
    assert alone == [item for item in ask.items(ROWS, plan) if item.probe == last.name]
    assert alone != [item for item in ask.items(ROWS, ask.AuditPlan(repeats=1, seed=1), [last]) if item.probe]


def test_nothing_is_tried_on_ties():
    tie = Labelled("tie", AnswerPair("p", "a", "b"), 0.5)
    assert [item.part for item in ask.items([tie], ask.AuditPlan(repeats=1))] == [ask.PAIRS]


def test_batches_times_and_judges():
    calls, now = [], iter(range(100))

    def make(repeat):
        judge = ask.ByScore(Scorer(lambda _, text: len(text)))

        class Noted:
            name = "noted"

            def compare(self, pairs):
                calls.append((repeat, len(pairs)))
                return judge.compare(pairs)

        return Noted()

    plan, told = ask.AuditPlan(repeats=2, repeated=3, timed=2, probed=0, batch=4), []
    found = ask.compare_items(make, ask.items(ROWS, plan), plan, clock=lambda: next(now), report=told.append)
    assert calls == [(0, 1), (0, 1), (0, 4), (0, 4), (0, 2), (1, 3)]
    assert told == [1, 1, 4, 4, 2, 3]
    assert [each.seconds for each in found] == [1, 1] + [None] * 13
    assert [each.item for each in found] == ask.items(ROWS, plan)


def test_scores_compare():
    judge = ask.ByScore(Scorer(lambda _, text: {"good": 0.9, "bad": 0.1, "lost": None, "mad": math.nan}.get(text, 0.9)))
    texts = [("good", "bad"), ("bad", "good"), ("good", "as good"), ("lost", "bad"), ("bad", "mad")]
    pairs = [AnswerPair("p", first, second) for first, second in texts]
    found = judge.compare(pairs)
    assert [each.first for each in found] == [1.0, 0.0, 0.5, None, None]
    assert {each.orders for each in found} == {(None, None)}
    assert found[3].failure == "timeout: 3 s"
    assert found[4].failure == "out of menu: the score is nan"
    assert judge.reward.asked == [10]


def test_grading_goes_by_batches():
    judge = Scorer(lambda prompt, text: 1.0 if (prompt, text) == ("p", "a") else 0.0)
    rows = [Graded("1", "p", "a", 5), Graded("2", "p", "b", 1), Graded("3", "q", "a", 1)]
    found = ask.grade(judge, rows, ask.AuditPlan(batch=2))
    assert ([verdict.score for verdict in found], judge.asked) == ([1.0, 0.0, 0.0], [2, 1])


@pytest.mark.parametrize("wrong", [{"repeats": 0}, {"batch": 0}, {"probed": -1}])
def test_a_plan_is_checked(wrong):
    with pytest.raises(ConfigError, match="nothing below 0"):
        ask.AuditPlan(**wrong)
