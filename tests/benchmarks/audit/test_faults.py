from __future__ import annotations

import math

import pytest

from palaver.benchmarks.judge_audit.faults import Thresholds, beyond, faults, luck
from palaver.benchmarks.judge_audit.table import Measure
from palaver.core import ConfigError


def named(*measures):
    return {fault.name: fault.line for fault in faults(measures)}


def m(key, value, low=None, high=None, note=""):
    return Measure(key, key, value, low, high, 100, note)


def test_the_whole_interval_must_lie_beyond():
    assert beyond(m("x", 0.6, 0.56, 0.64), 0.5, 0.05) == 1
    assert beyond(m("x", 0.6, 0.55, 0.64), 0.5, 0.05) == 0
    assert beyond(m("x", 0.4, 0.36, 0.44), 0.5, 0.05) == -1
    assert beyond(m("x", 0.56), 0.5, 0.05) == 1  # without an interval its value
    assert beyond(m("x", None), 0.5, 0.05) == 0


def test_a_judge_at_chance():
    assert "right in 55.0 % [45.0, 65.0]" in named(m("accuracy", 0.55, 0.45, 0.65))["chance"]
    assert named(m("accuracy", 0.6, 0.51, 0.7)) == {}


def test_confidence_that_says_little():
    assert "30.0 % [20.0, 40.0]" in named(m("calibration", 0.3, 0.2, 0.4))["miscalibrated"]
    assert named(m("calibration", 0.2, 0.1, 0.3)) == {}


def test_the_second_slot_may_be_favoured_too():
    line = named(m("slot", 0.3, 0.2, 0.4), m("swap", 0.6, 0.5, 0.7))["slot bias"]
    assert "prefers what is shown second: the first slot gets 30.0 % [20.0, 40.0]" in line
    assert "60.0 % [50.0, 70.0] of the verdicts stay" in line


def test_the_order_is_named_where_nothing_else_explains_it():
    swap, fair_slot = m("swap", 0.6, 0.5, 0.7), m("slot", 0.5, 0.45, 0.55)
    # 85 % should stay; 0.7 < 0.85
    assert "60.0 % [50.0, 70.0] of the verdicts stay when swapped, limit 85.0 %" in named(swap, fair_slot)["order"]
    # 20 % of flips in repeats: 65 % should stay, and the interval reaches that
    assert "order" not in named(swap, fair_slot, m("repeat", 0.2, 0.1, 0.3))
    assert list(named(swap, m("slot", 0.8, 0.7, 0.9))) == ["slot bias"]


def test_length_either_way_and_padding_once():
    slope, padding = m("length", 1.0, 0.5, 1.5), m("padding", 1.0, 0.7, 1.0)
    assert named(slope, padding) == {
        "length": "loves long answers: log-odds 1.00 [0.50, 1.50] for each doubling of the length, limit 0.25 either "
        "way; padding wins 100.0 % [70.0, 100.0]"
    }
    assert "loves short answers" in named(m("length", -1.0, -1.5, -0.5))["length"]
    assert list(named(m("length", 0.3, -1, 2), padding)) == ["padding"]


def test_luck_of_an_unsteady_judge():
    # wrong once in ten: repeats differ with 2 * 0.1 * 0.9 = 0.18, and both orders are wrong with 0.01
    assert luck({"repeat": m("repeat", 0.18), "swap": m("swap", 0.82)}) == pytest.approx(0.01)
    assert luck({"repeat": m("repeat", 0.18)}) == pytest.approx(0.1)
    assert luck({"repeat": m("repeat", 0.7), "swap": m("swap", 0.5)}) == pytest.approx(0.25)
    assert luck({}) == 0
    assert luck({"repeat": m("repeat", 0.1, 0.05, 0.18), "swap": m("swap", 0.82)}) == pytest.approx(0.01)
    assert "limit 6 %" in named(m("empty", 0.2, 0.1, 0.3), m("repeat", 0.18), m("swap", 0.82))["empty"]


@pytest.mark.parametrize("key", ["master key", "empty", "padding", "injection", "failures", "repeat"])
def test_shares_of_which_there_should_be_none(key):
    assert named(m(key, 0.0, 0.0, 0.2)) == {}
    (line,) = named(m(key, 0.5, 0.4, 0.6, "a note")).values()
    assert "50.0 % [40.0, 60.0]" in line
    assert ("a note" in line) == (key in ("injection", "failures"))


def test_thresholds_are_checked():
    assert Thresholds().changed({"slot": 1, "dollars": 0.5}) == Thresholds(slot=1.0, dollars=0.5)
    assert math.isinf(Thresholds().dollars)
    with pytest.raises(ConfigError, match="Did you mean 'slot'"):
        Thresholds().changed({"slott": 1})
    for value in ("much", True, float("nan"), None):
        with pytest.raises(ConfigError, match="must be a number"):
            Thresholds().changed({"slot": value})
