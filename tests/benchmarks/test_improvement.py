"""Intervals of an improvement against distributions enumerated by hand."""

from __future__ import annotations

import pytest

from palaver.utils.stats.improvement import Improvement, improvement


def tasks(*rows: tuple[float, ...]) -> list[dict[str, float]]:
    return [{f"t{n}": value for n, value in enumerate(row)} for row in rows]


def test_seeds_and_tasks_are_drawn_anew():
    """Two of each, one cell of four improved by 4: a draw has share s of that seed and t of that task, 0, 1/2 or 1 with
    chances 1/4, 1/2, 1/4, and the mean 4 s t: 4 in 1 of 16, 0 in 7 of 16."""
    found = improvement([0.0, 2.0], tasks((0.0, 0.0), (0.0, 4.0)))
    assert (found.mean, found.low, found.high, found.verdict) == (1.0, 0.0, 4.0, "no")
    assert found.over == "2 seeds and 2 tasks"
    shifted = improvement([5.0, 7.0], tasks((5.0, 5.0), (5.0, 9.0)))
    assert (shifted.mean, shifted.low, shifted.high, shifted.verdict) == (6.0, 5.0, 9.0, "yes")


def test_seeds_that_disagree_widen_it_however_many_tasks_agree():
    """Tasks alone would give [1, 1]; of two seeds both are the first, or the second, in a quarter of the draws."""
    found = improvement([0.0, 2.0], tasks((0.0,) * 20, (2.0,) * 20))
    assert (found.mean, found.low, found.high) == (1.0, 0.0, 2.0)


def test_of_one_seed_tasks_alone_are_drawn():
    found = improvement([2.0], tasks((0.0, 4.0)))
    assert (found.mean, found.low, found.high, found.over) == (2.0, 0.0, 4.0, "2 tasks of one seed")


def test_of_one_task_seeds_alone_are_drawn():
    found = improvement([0.0, 4.0], tasks((0.0,), (4.0,)))
    assert (found.mean, found.low, found.high, found.over) == (2.0, 0.0, 4.0, "2 seeds")


def test_without_tasks_it_is_students_interval():
    """Mean 2, deviation 1, t of 2 degrees of freedom 4.302653: 2 +- 4.302653 / sqrt 3."""
    for by_task in ([], tasks((1.0,), (2.0,)), [{"a": 1.0}, {"b": 2.0}, {"a": 3.0}]):
        found = improvement([1.0, 2.0, 3.0], by_task)
        assert (found.mean, found.low, found.high) == pytest.approx((2.0, -0.484138, 4.484138), abs=1e-5)
        assert found.verdict == "no"
        assert "Student" in found.over
    even = improvement([0.5, 0.5], [])
    assert (even.low, even.high, even.verdict) == (0.5, 0.5, "yes")


def test_one_seed_without_tasks_has_none():
    for found in (improvement([1.0], []), improvement([1.0], tasks((1.0,)))):
        assert (found.mean, found.low, found.high, found.over, found.verdict) == (1.0, None, None, "", "–")


def test_shares_and_worse():
    share = Improvement(-1.5, -2.0, -0.5, "").over_limit(2.0)
    assert (share.mean, share.low, share.high, share.verdict) == (-0.75, -1.0, -0.25, "worse")
    assert Improvement(1.0, None, None, "").over_limit(2.0).low is None
