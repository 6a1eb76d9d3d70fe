"""The losses of cloning, each beside numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from palaver.core import ConfigError
from palaver.trainers.cloning import losses
from palaver.trainers.cloning.hide import hide


def test_log_policy_of_legal_slots():
    """Scores ln 1, ln 3, ln 100 of which the last is illegal: 1/4, 3/4."""
    scores = torch.tensor([0.0, math.log(3), math.log(100)])
    logp = losses.log_policy(scores, torch.tensor([True, True, False]))
    assert logp[:2].exp().tolist() == pytest.approx([0.25, 0.75])
    assert logp[2] < -1e8
    nobody = losses.log_policy(scores.requires_grad_(), torch.zeros(3, dtype=torch.bool))
    nobody.sum().backward()
    assert nobody.isfinite().all()
    assert scores.grad.tolist() == [0.0, 0.0, 0.0]


def test_missing_slots_teach_nothing():
    """-(ln 0.25 + ln 0.5) / 2 = 1.0397; the third is missing, its scores get no gradient."""
    scores = torch.log(torch.tensor([[[0.25, 0.75], [0.5, 0.5], [0.1, 0.9]]])).requires_grad_()
    slot = torch.tensor([[0, 1, -1]])
    taken = losses.taken(losses.log_policy(scores, torch.ones(1, 3, 2, dtype=torch.bool)), slot)
    loss = losses.policy_loss(taken, torch.ones(1, 3), slot >= 0)
    assert loss.item() == pytest.approx(1.0397208)
    loss.backward()
    assert scores.grad[0, 2].tolist() == [0.0, 0.0]
    assert scores.grad[0, 0].tolist() == pytest.approx([-0.375, 0.375])  # (pi - 1{a}) / 2
    assert losses.policy_loss(taken, torch.ones(1, 3), slot < -5).item() == 0


def test_weights():
    advantage = torch.tensor([-2.0, 0.0, 0.5, 300.0])
    assert losses.weights("clone", advantage).tolist() == [1, 1, 1, 1]
    assert losses.weights("filter", advantage).tolist() == [0, 0, 1, 1]
    made = losses.weights("weigh", advantage, 2.0, 0.1, 20.0)
    assert made.tolist() == pytest.approx([0.1, 1.0, math.e, 20.0])  # exp(-4) = 0.018 is raised to 0.1
    assert losses.weights("weigh", advantage, 2.0, 0.0, math.inf).isfinite().all()


def test_weighted_loss():
    """-(0 ln 0.5 + 2 ln 0.25) / 2 = 1.386294."""
    logp = torch.log(torch.tensor([[0.5, 0.25]]))
    loss = losses.policy_loss(logp, torch.tensor([[0.0, 2.0]]), torch.ones(1, 2, dtype=torch.bool))
    assert loss.item() == pytest.approx(1.3862944)


def test_entropy():
    """Of (1/4, 3/4): 0.562335; of two that are alike ln 2; an illegal one adds nothing."""
    scores = torch.log(torch.tensor([[1.0, 3.0, 9.0], [1.0, 1.0, 9.0]]))
    mask = torch.tensor([[True, True, False]] * 2)
    made = losses.entropy(losses.log_policy(scores, mask), mask)
    assert made.tolist() == pytest.approx([0.5623351, math.log(2)])


def test_returns():
    """Discount 0.5, rewards 1, 2, 4: 1 + 0.5 (2 + 0.5 x 4) = 3, 4, 4; the second battle has two decisions."""
    reward = torch.tensor([[1.0, 2.0, 4.0], [1.0, -1.0, 9.0]])
    real = torch.tensor([[True, True, True], [True, True, False]])
    assert losses.returns(reward, real, 0.5).tolist() == [[3.0, 4.0, 4.0], [0.5, -1.0, 0.0]]


def test_symlog_and_two_hot():
    """symlog(e - 1) = 1; bins -2, 0, 2: 0.5 lies a quarter of the way from 0 to 2."""
    assert losses.symlog(torch.tensor([math.e - 1, 1 - math.e, 0.0])).tolist() == pytest.approx([1, -1, 0])
    assert losses.symexp(torch.tensor([1.0, -1.0])).tolist() == pytest.approx([math.e - 1, 1 - math.e])
    made = losses.two_hot(torch.tensor([0.5, -2.0, 2.0, 99.0, -1.0]), 3, 2.0)
    expected = [[0, 0.75, 0.25], [1, 0, 0], [0, 0, 1], [0, 0, 1], [0.5, 0.5, 0]]
    torch.testing.assert_close(made, torch.tensor(expected))


def test_value_of_a_result():
    """sigmoid(ln 3) = 0.75; -(ln 0.75 + ln 0.5) / 2 = 0.490415 of a victory seen so and a tie; padding left out."""
    values = torch.tensor([[[math.log(3)], [0.0], [7.0]]])
    assert losses.expected(values, 2.0)[0, :2].tolist() == pytest.approx([0.75, 0.5])
    real = torch.tensor([[True, True, False]])
    loss = losses.value_loss(values, torch.tensor([[1.0, 0.5, 0.0]]), real, 2.0)
    assert loss.item() == pytest.approx(0.4904147)


def test_value_of_a_return():
    """Bins -1, 0, 1 at 1/2, 1/4, 1/4: mean -1/4, symexp -(e^0.25 - 1) = -0.284025; target symexp(0.5): two-hot (0, 1/2,
    1/2), cross-entropy -ln(1/4) = 1.386294.
    """
    values = torch.log(torch.tensor([[[0.5, 0.25, 0.25]]]))
    assert losses.expected(values, 1.0).item() == pytest.approx(-0.2840254)
    target = losses.symexp(torch.tensor([[0.5]]))
    assert losses.value_loss(values, target, torch.ones(1, 1, dtype=torch.bool), 1.0).item() == pytest.approx(1.3862944)


def test_hidden_words():
    """Of 4,000 battles about 0.8 are touched, of which about half of U(0, 0.5), 0.25, is hidden."""
    words = torch.ones(4000, 2, 40, dtype=torch.long)
    made = hide(words, 0.8, 0.5, 3)
    assert words.all()
    share = (made == 0).float().mean((1, 2))
    assert abs((share > 0).float().mean() - 0.8) < 0.03  # some of U(0, 0.5) hide nothing by chance
    assert abs(share[share > 0].mean() - 0.25) < 0.015
    assert share.max() < 0.75
    assert torch.equal(made, hide(words, 0.8, 0.5, 3))
    assert not torch.equal(made, hide(words, 0.8, 0.5, 4))
    assert torch.equal(hide(words, 0.0, 0.5, 3), words)
    with pytest.raises(ConfigError, match="between 0 and 1"):
        hide(words, 1.5, 0.5, 0)
