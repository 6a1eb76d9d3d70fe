"""Importance ratios of the three levels, against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from palaver.trainers.objectives.losses import approximate_kl, log_ratio, truncated

APART = torch.tensor([[0.1, -0.3, 0.5], [0.5, 0.0, 0.0]])
OLD = torch.tensor([[-1.0, -2.0, -3.0], [-4.0, math.nan, -math.inf]])
MASK = torch.tensor([[True, True, True], [True, False, False]])


@pytest.mark.parametrize(
    ("level", "first"), [("token", [0.1, -0.3, 0.5]), ("turn", [0.1, 0.1, 0.1]), ("sequence", [0.3, 0.3, 0.3])]
)
def test_levels(level, first):
    """Sum of .1, -.3, .5 is .3, mean .1. What stands on padding does not matter."""
    got = log_ratio(OLD + APART, OLD, MASK, level)
    assert got[0].tolist() == pytest.approx(first, abs=1e-6)
    assert got[1].tolist() == pytest.approx([0.5, 0.0, 0.0], abs=1e-6)


@pytest.mark.parametrize(("level", "expected"), [("token", 1.0), ("turn", 1.0), ("sequence", 3.0)])
def test_gradient_of_the_sum_of_log_ratios(level, expected):
    """Each of three tokens moves its own ratio by 1, the mean of all three by 1/3, their sum by 1."""
    logp = torch.tensor([[0.1, -0.3, 0.5]], requires_grad=True)
    log_ratio(logp, torch.zeros(1, 3), torch.ones(1, 3) > 0, level).sum().backward()
    assert logp.grad.tolist() == [pytest.approx([expected] * 3)]


@pytest.mark.parametrize("level", ["token", "turn", "sequence"])
def test_a_ratio_stays_finite(level):
    mask = torch.ones(1, 2) > 0
    far = log_ratio(torch.tensor([[900.0, 900.0]]), torch.zeros(1, 2), mask, level)
    assert far.tolist() == [[20.0, 20.0]]
    assert log_ratio(torch.tensor([[-900.0, -900.0]]), torch.zeros(1, 2), mask, level).tolist() == [[-20.0, -20.0]]


def test_truncated_bounds_from_above_and_has_no_gradient():
    log_rho = torch.tensor([math.log(3.0), math.log(0.25)], requires_grad=True)
    weight = truncated(log_rho, 2.0)
    assert weight.tolist() == pytest.approx([2.0, 0.25])
    assert not weight.requires_grad


def test_approximate_kl_is_the_mean_over_sampled_tokens():
    """d = 1, -1 on two tokens, padding besides: (e - 2 + 1/e) / 2."""
    old = torch.tensor([[-2.0, -1.0, math.nan]])
    now = torch.tensor([[-1.0, -2.0, 0.0]])
    got = approximate_kl(now, old, torch.tensor([[True, True, False]]))
    assert float(got) == pytest.approx((math.e - 2 + 1 / math.e) / 2, rel=1e-5)


def test_approximate_kl_is_unbiased_on_a_small_softmax():
    """Tokens sampled from q = (.5, .3, .2), each as often as q says; p = (.2, .2, .6): sum of q log(q / p)."""
    often = [0] * 5 + [1] * 3 + [2] * 2
    q, p = torch.tensor([0.5, 0.3, 0.2])[often], torch.tensor([0.2, 0.2, 0.6])[often]
    expected = 0.5 * math.log(2.5) + 0.3 * math.log(1.5) + 0.2 * math.log(1 / 3)
    assert float(approximate_kl(p.log()[None], q.log()[None], torch.ones(1, 10) > 0)) == pytest.approx(expected)
