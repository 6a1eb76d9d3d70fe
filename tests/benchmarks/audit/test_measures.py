"""Every measure against numbers worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from palaver.benchmarks.judge_audit import measures
from palaver.benchmarks.judge_audit.measures import PRIOR, WIDE, length_slope
from palaver.benchmarks.judge_audit.table import bootstrap, bootstrapped, share


def a(*values):
    return np.array(values, dtype=np.float64)


def test_accuracy_gives_half_a_point_for_a_tie_of_the_judge():
    # right, wrong, tie, right; the last pair is a tie of people and does not count: (1 + 0 + 1/2 + 1) / 4
    assert measures.accuracy(a(0.9, 0.9, 0.5, 0.2, 0.5), a(1, 0, 1, 0, 0.5)) == 2.5 / 4
    assert math.isnan(measures.accuracy(a(0.9), a(0.5)))


def test_kappa_of_cohens_table():
    # 20 both yes, 5 only the first yes, 10 only the second, 15 both no: observed 35/50 = 0.7; expected
    # 25/50 * 30/50 + 25/50 * 20/50 = 0.5; kappa = 0.2 / 0.5 = 0.4
    one = [1] * 25 + [0] * 25
    two = [1] * 20 + [0] * 5 + [1] * 10 + [0] * 15
    assert measures.kappa(one, two) == pytest.approx(0.4)
    assert measures.kappa(two, one) == pytest.approx(0.4)


def test_kappa_at_its_ends():
    assert measures.kappa([0, 1, 2], [0, 1, 2]) == pytest.approx(1)
    assert measures.kappa([0, 1], [1, 0]) == pytest.approx(-1)  # observed 0, expected 1/2
    assert math.isnan(measures.kappa([1, 1], [1, 1]))
    assert math.isnan(measures.kappa([], []))


def test_quadratic_kappa_counts_far_misses_more():
    # grades 1 1 3 against 1 3 3: disagreement (0 + 4 + 0) / 3 = 4/3. By chance: margins 2/3, 1/3 and 1/3, 2/3, so a
    # distance of 2 has probability 2/3 * 2/3 + 1/3 * 1/3 = 5/9, times 4 = 20/9: kappa = 1 - (4/3) / (20/9) = 0.4
    assert measures.kappa([1, 1, 3], [1, 3, 3], quadratic=True) == pytest.approx(0.4)
    # grade 2 in the second place: (0 + 1 + 0) / 3 = 1/3. By chance sum p_i q_j (i - j)^2, with p = 2/3 1, 1/3 3 and
    # q = 1/3 of each: 2/9 (0 + 1 + 4) + 1/9 (4 + 1 + 0) = 15/9: kappa = 1 - (1/3) / (15/9) = 0.8
    assert measures.kappa([1, 1, 3], [1, 2, 3], quadratic=True) == pytest.approx(0.8)


def test_reliability_and_calibration_error():
    # confidences 1.0 1.0 0.75 0.75 0.5: bins (0.9, 1], (0.7, 0.8], (0.4, 0.5]
    p, label = a(1.0, 0.0, 0.75, 0.25, 0.5), a(1, 1, 1, 0, 0)
    bins = measures.reliability(p, label)
    assert [(each.low, each.high, each.n, each.confidence, each.right) for each in bins] == [
        (0.4, 0.5, 1, 0.5, 0.5), (0.7, 0.8, 2, 0.75, 1.0), (0.9, 1.0, 2, 1.0, 0.5),
    ]  # fmt: skip
    # 1/5 * 0 + 2/5 * 0.25 + 2/5 * 0.5
    assert measures.calibration_error(bins) == pytest.approx(0.3)
    assert measures.reliability(a(0.5), a(0.5)) == []
    assert math.isnan(measures.calibration_error([]))


def test_a_bin_holds_its_upper_end():
    """0.7 is 7 * 0.1 in decimals and not quite in binary."""
    (each,) = measures.reliability(a(0.7, 0.3, 1 - 0.3), a(1, 0, 1))
    assert (each.low, each.high, each.n) == (0.6, 0.7, 3)


def test_swaps():
    orders = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.9, 0.6]])
    # same verdict in rows 1, 4, 5
    assert measures.swap_consistency(orders) == pytest.approx(3 / 5)
    # first slot gets, row by row: (1 + 0)/2, (1 + 1)/2, (0 + 0)/2, (0.5 + 0.5)/2, (0.9 + 0.4)/2
    assert measures.first_slot_rate(orders) == pytest.approx((0.5 + 1 + 0 + 0.5 + 0.65) / 5)


def test_repeats():
    repeats = np.array([[1.0, 1.0, 0.0], [0.2, 0.4, 0.3]])
    # two of the three pairs of repeats differ in the first row, none in the second
    assert measures.flips(repeats) == pytest.approx((2 / 3 + 0) / 2)
    # deviations: of 1 1 0 sqrt(((1/3)^2 * 2 + (2/3)^2) / 2) = sqrt(1/3); of .2 .4 .3 it is 0.1
    assert measures.spread(repeats) == pytest.approx((math.sqrt(1 / 3) + 0.1) / 2)


def test_longer_rate_leaves_out_equal_lengths():
    assert measures.longer_rate(a(1.0, 1.0, 0.25, 0.9), a(5, -5, -1, 0)) == pytest.approx((1 + 0 + 0.75) / 3)
    assert math.isnan(measures.longer_rate(a(1.0), a(0)))


def test_scores_as_grades():
    assert measures.as_grades(a(0, 0.12, 0.125, 0.5, 0.99, 1, 7), 1, 5).tolist() == [1, 1, 2, 3, 5, 5, 5]


def test_the_slope_is_where_its_equations_say():
    """At the maximum X'(p - s) equals the prior's pull, and the interval comes from the curvature there."""
    rng = np.random.default_rng(0)
    lengths, label = rng.integers(20, 2000, (60, 2)).astype(float), rng.integers(0, 2, 60).astype(float)
    p = rng.integers(0, 3, 60) / 2
    found = length_slope(p, label, lengths)
    d = np.log2((lengths[:, 0] + 1) / (lengths[:, 1] + 1))
    x = np.column_stack([np.ones(60), 2 * label - 1, d])
    pull = np.array([WIDE, PRIOR, PRIOR]) ** -2.0
    w = np.zeros(3)
    for _ in range(50):  # Newton's method, written out
        s = 1 / (1 + np.exp(-x @ w))
        curve = (x * (s * (1 - s))[:, None]).T @ x + np.diag(pull)
        w += np.linalg.solve(curve, x.T @ (p - s) - pull * w)
    half = 1.959964 * math.sqrt(np.linalg.inv(curve)[2, 2])
    assert (found.value, found.low, found.high) == pytest.approx((w[2], w[2] - half, w[2] + half), abs=1e-4)
    assert found.n == 60


def test_the_slope_of_one_who_goes_by_length_is_recovered():
    rng = np.random.default_rng(1)
    lengths, label = rng.integers(20, 2000, (4000, 2)).astype(float), rng.integers(0, 2, 4000).astype(float)
    logits = 0.8 * np.log2((lengths[:, 0] + 1) / (lengths[:, 1] + 1)) + 0.5 * (2 * label - 1)
    p = (rng.random(4000) < 1 / (1 + np.exp(-logits))).astype(float)
    found = length_slope(p, label, lengths)
    assert found.low < 0.8 < found.high
    assert found.high - found.low < 0.25


def test_a_judge_that_is_always_right_has_no_slope():
    """The label tells everything, so the likelihood alone would have no maximum."""
    lengths, label = np.array([[10.0, 100.0], [100.0, 10.0], [50.0, 50.0]] * 10), np.array([1.0, 0.0] * 15)
    found = length_slope(label, label, lengths)
    assert found.low < 0 < found.high


def test_the_bootstrap_of_a_mean_is_that_of_theory():
    """500 of 1,000: the standard error of a share is sqrt(0.25 / 1000) = 0.0158, times 1.96 = 0.031."""
    values = np.array([0.0, 1.0] * 500)
    low, high = bootstrap(lambda at: float(values[at].mean()), 1000)
    assert (low, high) == pytest.approx((0.469, 0.531), abs=0.004)
    assert bootstrap(lambda at: 1.0, 1) == (None, None)


def test_a_share_of_nothing():
    # Wilson for 0 of 16: z^2 / (16 + z^2) = 3.8415 / 19.8415
    each = share("key", "title", 0, 16)
    assert (each.value, each.low, each.high) == (0, 0, pytest.approx(0.19361, abs=1e-5))
    assert share("key", "title", 0, 0).value is None


def test_three_of_three_is_not_certain():
    # Wilson for 3 of 3: lower end n / (n + z^2) = 3 / 6.8415
    each = bootstrapped("accuracy", "title", 3, lambda at: 1.0)
    assert (each.low, each.high) == (pytest.approx(0.4385, abs=1e-4), 1)
    assert bootstrapped("kappa", "title", 3, lambda at: 1.0).low == 1
    assert bootstrapped("kappa", "title", 3, lambda at: math.nan).value is None
