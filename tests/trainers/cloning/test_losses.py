"""The losses of cloning, each beside numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from palaver.core import ConfigError
from palaver.trainers.behaviour_cloning import losses
from palaver.trainers.behaviour_cloning.config import BCConfig
from palaver.trainers.behaviour_cloning.losses import judge
from palaver.trainers.behaviour_cloning.students import StudentOutputs, feature_dropout


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
    assert loss.item() == pytest.approx(0.4904147, rel=1e-5)


def test_value_of_a_return():
    """Bins -1, 0, 1 at 1/2, 1/4, 1/4: mean -1/4, symexp -(e^0.25 - 1) = -0.284025; target symexp(0.5): two-hot (0, 1/2,
    1/2), cross-entropy -ln(1/4) = 1.386294.
    """
    values = torch.log(torch.tensor([[[0.5, 0.25, 0.25]]]))
    assert losses.expected(values, 1.0).item() == pytest.approx(-0.2840254, rel=1e-5)
    target = losses.symexp(torch.tensor([[0.5]]))
    assert losses.value_loss(values, target, torch.ones(1, 1, dtype=torch.bool), 1.0).item() == pytest.approx(1.3862944)


def test_hidden_words():
    """Of 4,000 battles about 0.8 are touched, of which about half of U(0, 0.5), 0.25, is hidden."""
    words = torch.ones(4000, 2, 40, dtype=torch.long)
    made = feature_dropout(words, 0.8, 0.5, 3)
    assert words.all()
    share = (made == 0).float().mean((1, 2))
    assert abs((share > 0).float().mean() - 0.8) < 0.03  # some of U(0, 0.5) hide nothing by chance
    assert abs(share[share > 0].mean() - 0.25) < 0.015
    assert share.max() < 0.75
    assert torch.equal(made, feature_dropout(words, 0.8, 0.5, 3))
    assert not torch.equal(made, feature_dropout(words, 0.8, 0.5, 4))
    assert torch.equal(feature_dropout(words, 0.0, 0.5, 3), words)
    with pytest.raises(ConfigError, match="between 0 and 1"):
        feature_dropout(words, 1.5, 0.5, 0)


def test_lambda_returns():
    """Rewards 0, 0, 1 and values .2, .4, .9, gamma 1, lambda 1/2: from the end 1; 0 + (.9 + 1) / 2 = .95;
    (.4 + .95) / 2 = .675. With lambda 0 what the next value says, with gamma 1/2 half of that.
    """
    reward, value = torch.tensor([[0.0, 0.0, 1.0, 7.0]]), torch.tensor([[0.2, 0.4, 0.9, 5.0]])
    real = torch.tensor([[True, True, True, False]])
    assert losses.traced(reward, value, real, 1.0, 0.5)[0].tolist() == pytest.approx([0.675, 0.95, 1.0, 0.0])
    assert losses.traced(reward, value, real, 0.5, 0.0)[0].tolist() == pytest.approx([0.2, 0.45, 1.0, 0.0])
    assert torch.equal(losses.traced(reward, value, real, 0.9, 1.0), losses.returns(reward, real, 0.9))


def test_advice_is_a_cross_entropy():
    """-(3/4 ln 1/2 + 1/4 ln 1/4) = 0.866434 where a coach was asked; an illegal slot adds nothing."""
    logp = losses.log_policy(torch.log(torch.tensor([2.0, 1.0, 1.0, 1.0])), torch.tensor([True, True, True, False]))
    advice = torch.tensor([[0.75, 0.25, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    assert losses.advised(logp, advice).tolist() == pytest.approx([-0.8664340, 0.0])


def test_advice_stands_for_what_was_played():
    """Three decisions of a battle that was won, pi = (1/2, 1/2), V = 1/2: the first two were played, the last advised.

    With weigh, beta 2 and lambda 1 the played ones weigh exp(2 (1 - 1/2)) = e, the advised one 1: (2e + 1) ln 2 / 3.
    With lambda 0 the first is compared with the second, that is with itself: (1 + e' + 1) where the second is followed
    by V = 1/2 too, so both weigh 1: ln 2. What was played under advice (slot 1) does not count, its best (slot 0) does.
    """
    scores = torch.zeros(1, 3, 2)
    advice = torch.tensor([[[0.0, 0.0], [0.0, 0.0], [0.6, 0.4]]])
    found = StudentOutputs(
        scores, torch.zeros(1, 3, 1), torch.ones(1, 3, 2, dtype=torch.bool), torch.tensor([[0, 0, 1]]),
        torch.zeros(1, 3), torch.ones(1), torch.ones(1, 3, dtype=torch.bool), advice,
    )  # fmt: skip
    weigh = BCConfig(loss="weigh", beta=2.0, value_coef=0.0)
    loss, said = judge(found, weigh, 1.0)
    assert loss.item() == pytest.approx((2 * math.e + 1) * math.log(2) / 3)
    assert said["accuracy"] == 1.0
    assert said["value_loss"] == pytest.approx(math.log(2))
    assert judge(found, weigh.model_copy(update={"trace": 0.0}), 1.0)[0].item() == pytest.approx(math.log(2))


def test_who_does_not_teach_the_policy_teaches_the_value():
    """No slot is known and nobody was asked: the policy's loss is 0, the value's half of ln 2."""
    found = StudentOutputs(
        torch.zeros(1, 2, 2, requires_grad=True), torch.zeros(1, 2, 1), torch.ones(1, 2, 2, dtype=torch.bool),
        torch.full((1, 2), -1), torch.zeros(1, 2), torch.zeros(1), torch.ones(1, 2, dtype=torch.bool),
        torch.zeros(1, 2, 2),
    )  # fmt: skip
    loss, said = judge(found, BCConfig(value_coef=0.5), 1.0)
    assert loss.item() == pytest.approx(math.log(2) / 2)
    assert said["decisions"] == 0
