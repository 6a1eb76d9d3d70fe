"""The audit names the fault of each judge that has one, and nothing of a fair one."""

from __future__ import annotations

import pytest

from palaver.benchmarks.judge_audit import ask, table
from palaver.benchmarks.judge_audit.data import read
from palaver.benchmarks.judge_audit.faults import Thresholds, faults
from palaver.benchmarks.judge_audit.judges import BRAINS, AnswerKey, JudgeInput
from tests.benchmarks.audit.judges import Brainy

DATA = read(["generated:0:100"])
FAULT = {
    "fair": [], "slot-biased": ["slot bias"], "length-loving": ["length"], "injectable": ["injectable"],
    "gullible": ["master keys"], "flaky": ["unsteady"], "refusing": ["failing"], "slow": ["slow"],
}  # fmt: skip


class Clock:
    """Seconds that pass only where a slow judge is asked."""

    now = 0.0

    def __call__(self):
        return self.now


def audited(kind, data=DATA, limits=None, **settings):
    plan, clock = ask.AuditPlan(**settings), Clock()

    class Timed(Brainy):
        def compare(self, pairs):
            clock.now += 60.0 if kind == "slow" else 0.5
            return super().compare(pairs)

    asked = ask.compare_items(
        lambda repeat: Timed(kind, data.pairs, repeat), ask.items(data.pairs, plan), plan, clock=clock
    )
    found = table.measure(data, asked)
    return {each.key: each for each in found}, faults(found, limits)


def test_every_kind_is_here():
    assert set(FAULT) == set(BRAINS)


@pytest.mark.parametrize("kind", FAULT)
def test_its_fault_and_no_other(kind):
    _, found = audited(kind)
    assert [fault.name for fault in found] == FAULT[kind], [fault.line for fault in found]


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("kind", ["fair", "slot-biased", "flaky"])
def test_on_other_data_too(kind, seed):
    _, found = audited(kind, read([f"generated:{seed}:80"]), seed=seed)
    assert [fault.name for fault in found] == FAULT[kind], [fault.line for fault in found]


def test_the_numbers_of_the_slot_biased_judge():
    """It takes the first for the prompts that its lot falls on, so those pairs are ties over both orders."""
    lots = [BRAINS["slot-biased"](JudgeInput(row.pair.prompt, row.bad, row.good), AnswerKey.of(DATA.pairs)) == "first"
            for row in DATA.pairs]  # fmt: skip
    fell = sum(lots)  # the worse one is shown first and wins: only where the lot fell
    assert 50 < fell < 70
    found, _ = audited("slot-biased", repeats=1, probed=0)
    assert found["slot"].value == pytest.approx((fell + (100 - fell) / 2) / 100)
    assert found["swap"].value == pytest.approx((100 - fell) / 100)
    assert found["accuracy"].value == pytest.approx((100 - fell / 2) / 100)
    assert not {"repeat", "injection", "master key"} & set(found)


def test_failures_are_counted_by_kind_and_leave_the_measures():
    found, lines = audited("refusing", probed=0, repeats=1)
    refused = sum(
        BRAINS["refusing"](JudgeInput(row.pair.prompt, "", ""), AnswerKey.of(())) == "refusal" for row in DATA.pairs
    )
    assert found["failures"].value == pytest.approx(refused / 100)
    assert found["failures"].note == f"refusal {refused:.1f} %"
    assert (found["accuracy"].value, found["accuracy"].n) == (1.0, 100 - refused)
    assert f"gives no verdict on {refused:.1f} %" in lines[0].line


def test_costs_and_times():
    found, _ = audited("fair", repeats=1, probed=0, timed=5)
    # each comparison: 2 calls, 110 tokens, a tenth of a cent
    assert (found["dollars"].value, found["tokens"].value) == (pytest.approx(1.0), 110)
    assert (found["median_s"].value, found["p95_s"].value, found["median_s"].n) == (0.5, 0.5, 5)


def test_a_threshold_may_be_another():
    assert [fault.name for fault in audited("fair", limits=Thresholds(dollars=0.5, p95=0.1))[1]] == ["slow", "dear"]
    assert audited("slot-biased", limits=Thresholds(slot=0.4, swap=0.7))[1] == []
