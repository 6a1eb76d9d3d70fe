"""Statistics of seeds: against scipy's own tests and numbers worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from palaver.utils.stats import intervals
from palaver.utils.stats.intervals import Mode


def test_student():
    """t(4, .975) = 2.776445; of 1..5 the mean is 3, s² = 2.5, s / √5 = 0.707107."""
    assert intervals.student([1, 2, 3, 4, 5]) == pytest.approx((3 - 2.776445 * 0.707107, 3 + 2.776445 * 0.707107))
    values = [0.3, 1.7, -4.0, 0.25]
    assert intervals.student(values) == pytest.approx(tuple(stats.ttest_1samp(values, 0).confidence_interval(0.95)))
    assert intervals.student([2.0]) is None
    assert intervals.student([0.1, 0.1, 0.1]) == pytest.approx((0.1, 0.1))


def test_bootstrap_of_two_values():
    """The mean of two draws from {0, 1} is 0, 1/2, 1 with shares 1/4, 1/2, 1/4: the quantiles are the ends."""
    assert intervals.bootstrap([0.0, 1.0]) == (0.0, 1.0)
    assert intervals.bootstrap([3.0]) is None


def test_bootstrap_nears_the_normal_interval():
    """Of many values it is the mean ± 1.96 s / √n, s with n."""
    values = np.random.default_rng(3).normal(size=400).tolist()
    half = 1.959964 * float(np.std(values)) / 20
    low, high = intervals.bootstrap(values)
    assert low == pytest.approx(np.mean(values) - half, abs=0.1 * half)
    assert high == pytest.approx(np.mean(values) + half, abs=0.1 * half)
    assert intervals.bootstrap(values) == (low, high)


def test_welch():
    a, b = [20.1, 19.8, 21.3, 20.7], [18.2, 25.0, 17.7, 22.9, 19.1, 30.2]
    found = stats.ttest_ind(a, b, equal_var=False).confidence_interval(0.95)
    assert intervals.welch(a, b) == pytest.approx((found.low, found.high))
    assert intervals.welch(a, a)[0] < 0 < intervals.welch(a, a)[1]
    assert intervals.welch([1.0, 1.0], [0.5, 0.5]) == (0.5, 0.5)
    assert intervals.welch([1.0], b) is None


def test_welch_where_one_side_does_not_vary():
    """Then f = nb - 1: of [1, 1] and [0, 2], d = 0, √(vb) = 1, t(1, .975) = 12.7062."""
    assert intervals.welch([1.0, 1.0], [0.0, 2.0]) == pytest.approx((-12.7062, 12.7062), rel=1e-5)


@pytest.mark.parametrize(
    ("values", "span", "same"),
    [([1.0, 1.0], 0.5, True), ([1.0, 0.99], 0.5, True), ([1.0, 0.98], 0.5, False), ([1.0], 0.5, False),
     ([0.3, 0.3 + 0.02 * 0.7], 0.7, True)],
)  # fmt: skip
def test_agreement(values, span, same):
    assert intervals.agree(values, span) is same


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([7, 7, 7, 11, 11], (Mode(11, 2), Mode(7, 3))),
        ([0, 0, 0, 0, 10], (Mode(10, 1), Mode(0, 4))),
        ([0, 1, 5.1, 6.0], (Mode(5.55, 2), Mode(0.5, 2))),  # gap 4.1 of 6, spread 1: 4.1 > 4
        ([0, 1, 4.9, 5.9], ()),  # gap 3.9: not four times the spread
        ([0, 1, 2, 3, 4], ()),
        ([0, 1, 10], ()),  # three seeds
        ([5, 5, 6, 6], ()),  # 1 of a range of 10: no more than a tenth
        ([5, 5, 5, 5], ()),
    ],
)
def test_modes(values, found):
    assert [(each.mean, each.seeds) for each in intervals.modes(values, 10.0)] == [
        (pytest.approx(each.mean), each.seeds) for each in found
    ]
