"""How good a reward model is, by hand."""

from __future__ import annotations

import pytest

from palaver.trainers.reward_model.fit import quality


def test_accuracy_margin_and_loss_by_hand():
    """Differences 1, -1, 0, 2: two of four are right; losses log(1 + e^-1), log(1 + e), log 2, log(1 + e^-2)."""
    found = quality(["a", "a", "b", "b"], [1.0, -1.0, 0.0, 2.0], [True, False, False, False])
    assert (found.accuracy, found.margin, found.longer, found.pairs, found.tasks) == (0.5, 0.5, 0.25, 4, 2)
    assert found.loss == pytest.approx((0.313262 + 1.313262 + 0.693147 + 0.126928) / 4, abs=1e-6)
    assert (found.low, found.high) == (0.5, 0.5), "both tasks have one of two"


def test_the_interval_is_over_tasks():
    """Task a: 9 of 9 right, task b: 0 of 1. Drawn anew the share is 18/18, 9/10 or 0/2: the ends are 0 and 1."""
    found = quality([*"a" * 9, "b"], [1.0] * 9 + [-1.0], [True] * 10)
    assert (found.accuracy, found.low, found.high) == (0.9, 0.0, 1.0)
    alone = quality(["a"] * 3, [1.0, 1.0, -1.0], [True] * 3)
    assert (alone.low, alone.high) == (None, None)


def test_large_differences_are_finite_and_no_pairs_are_an_error():
    assert quality(["a"], [-1e4], [True]).loss > 700
    with pytest.raises(ValueError, match="no pairs"):
        quality([], [], [])
