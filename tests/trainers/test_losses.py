"""Losses and token weights, against numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch

from palaver.trainers.config.run import OptimConfig
from palaver.trainers.objectives.kl import kl_k1, kl_k2, kl_k3
from palaver.trainers.objectives.losses import (
    LossInputs,
    cispo,
    ppo_clip,
    reinforce,
    token_weights,
)
from palaver.trainers.update.policy_update import learning_rate_schedule


def test_reinforce():
    logp = torch.tensor([[-1.0, -2.0], [-3.0, 0.0]])
    advantage = torch.tensor([[2.0, 2.0], [-1.0, -1.0]])
    assert reinforce(logp, LossInputs(advantage, logp, torch.ones(2, 2) > 0)).tolist() == [[2.0, 4.0], [-3.0, 0.0]]


def rows(rho: list[float], advantage: list[float], **more) -> tuple[torch.Tensor, LossInputs]:
    """One row a number, of one token, that has become rho times as likely as at log-prob -1."""
    logp = (torch.tensor(rho).log() - 1.0)[:, None].requires_grad_()
    old = torch.full((len(rho), 1), -1.0)
    return logp, LossInputs(torch.tensor(advantage)[:, None], old, torch.ones(len(rho), 1) > 0, **more)


def pays(loss, rho: list[float], advantage: list[float], **more) -> tuple[list[float], list[float]]:
    """Loss and gradient by log pi of each row."""
    logp, said = rows(rho, advantage, **more)
    each = loss(logp, said)
    each.sum().backward()
    return each[:, 0].tolist(), logp.grad[:, 0].tolist()


def test_clipped_at_both_bounds():
    """clip = (.2, .28). A > 0: rho 1.5 pays 1.28 without gradient, .5 pays .5 with gradient -.5, 1.25 pays 1.25.

    A < 0: rho 1.5 pays -1.5 with gradient, .5 pays -.8 without, .9 pays -.9.
    """
    loss, gradient = pays(
        ppo_clip, [1.5, 0.5, 1.25, 1.5, 0.5, 0.9], [1.0, 1.0, 1.0, -1.0, -1.0, -1.0], clip=(0.2, 0.28)
    )
    assert loss == pytest.approx([-1.28, -0.5, -1.25, 1.5, 0.8, 0.9])
    assert gradient == pytest.approx([0.0, -0.5, -1.25, 1.5, 0.0, 0.9])


def test_dual_clip_bounds_what_a_token_of_negative_advantage_pays():
    """c = 3: rho 5 at A = -2 pays 6, not 10; rho 2 pays 4; A = +2 is left at 1.2 * 2."""
    loss, gradient = pays(ppo_clip, [5.0, 2.0, 5.0], [-2.0, -2.0, 2.0], dual_clip=3.0)
    assert loss == pytest.approx([6.0, 4.0, -2.4])
    assert gradient == pytest.approx([0.0, 4.0, 0.0])
    assert pays(ppo_clip, [5.0], [-2.0])[0] == pytest.approx([10.0])


def test_cispo_weighs_and_never_stops_a_gradient():
    """clip high .28: weights 1.28, .5, 1.28; loss -w A log pi, gradient -w A, the weight without gradient."""
    loss, gradient = pays(cispo, [1.5, 0.5, 4.0], [2.0, 1.0, -1.0], clip=(0.2, 0.28))
    assert gradient == pytest.approx([-2.56, -0.5, 1.28])
    assert loss == pytest.approx([-2.56 * (math.log(1.5) - 1), -0.5 * (math.log(0.5) - 1), 1.28 * (math.log(4) - 1)])


def test_truncated_importance_correction_of_reinforce():
    """rho 3, .5 with truncate 2: weights 2, .5; without it 1."""
    assert pays(reinforce, [3.0, 0.5], [1.0, -1.0], truncate=2.0)[1] == pytest.approx([-2.0, 0.5])
    assert pays(reinforce, [3.0, 0.5], [1.0, -1.0])[1] == pytest.approx([-1.0, 1.0])


@pytest.mark.parametrize("loss", [ppo_clip, cispo])
@pytest.mark.parametrize("level", ["token", "turn", "sequence"])
def test_at_ratio_one_every_loss_has_the_gradient_of_reinforce(loss, level):
    """All tokens of a row share A. At `sequence` each of its n tokens carries the ratio of all."""
    old = torch.tensor([[-1.0, -2.0, -0.5], [-0.3, -1.2, 0.0]])
    mask = torch.tensor([[True, True, True], [True, True, False]])
    logp = old.clone().requires_grad_()
    each = loss(logp, LossInputs(torch.tensor([[1.5], [-0.5]]).expand(2, 3), old, mask, level))
    torch.where(mask, each, 0.0).sum().backward()
    times = torch.tensor([[3.0], [2.0]]) if level == "sequence" and loss is ppo_clip else torch.ones(2, 1)
    assert torch.allclose(logp.grad, times * torch.tensor([[-1.5, -1.5, -1.5], [0.5, 0.5, 0.0]]))


def test_gspo_moves_all_tokens_by_the_mean_ratio():
    """Log ratios .1, .3: s = exp(.2) = 1.2214 > 1.2 pays 1.2 without gradient; at .1, .1 s = 1.105 with gradient -s."""
    apart = torch.tensor([[0.1, 0.3], [0.1, 0.1]], requires_grad=True)
    each = ppo_clip(apart, LossInputs(torch.ones(2, 2), torch.zeros(2, 2), torch.ones(2, 2) > 0, "turn"))
    each.sum().backward()
    assert each.tolist() == [pytest.approx([-1.2, -1.2]), pytest.approx([-math.exp(0.1)] * 2)]
    assert apart.grad.tolist() == [[0.0, 0.0], pytest.approx([-math.exp(0.1)] * 2)]


def test_kl_k1_is_the_difference():
    assert kl_k1(torch.tensor([[-1.0, -2.0]]), torch.tensor([[-1.5, -0.5]])).tolist() == [[0.5, -1.5]]


def test_kl_k3_is_zero_at_equality_and_positive_elsewhere():
    logp = torch.tensor([[-1.0, -2.0, -0.5]])
    reference = torch.tensor([[-1.0, -1.0, -1.5]])
    expected = [0.0, math.e - 2.0, math.exp(-1) + 1 - 1]  # d = 0, 1, -1
    assert torch.allclose(kl_k3(logp, reference)[0], torch.tensor(expected))


def test_kl_k3_is_unbiased_on_a_small_softmax():
    p, q = torch.tensor([0.7, 0.2, 0.1]), torch.tensor([0.3, 0.3, 0.4])
    exact = (p * (p / q).log()).sum()
    estimate = (p * kl_k3(p.log()[None], q.log()[None])[0]).sum()
    assert torch.allclose(exact, estimate)


def test_kl_k2_is_half_the_square():
    assert kl_k2(torch.tensor([[-1.0, -2.0]]), torch.tensor([[-1.0, -0.5]])).tolist() == [[0.0, 1.125]]


def test_gradients_of_the_estimators_on_a_small_softmax():
    """k2: p_i (log(p_i / q_i) - KL(p, q)), that of KL(p, q). k3: p_i - q_i, that of KL(q, p)."""
    p, q = torch.tensor([0.7, 0.2, 0.1], dtype=torch.float64), torch.tensor([0.3, 0.3, 0.4], dtype=torch.float64)
    apart = 0.7 * math.log(7 / 3) + 0.2 * math.log(2 / 3) + 0.1 * math.log(1 / 4)
    expected = {
        kl_k2: [0.7 * (math.log(7 / 3) - apart), 0.2 * (math.log(2 / 3) - apart), 0.1 * (math.log(1 / 4) - apart)],
        kl_k3: [0.4, -0.1, -0.3],
    }
    for estimator, gradient in expected.items():
        logits = p.log().requires_grad_()
        logp = torch.log_softmax(logits, dim=0)
        (p * estimator(logp[None], q.log()[None])[0]).sum().backward()  # p: how often each token is sampled
        assert torch.allclose(logits.grad, torch.tensor(gradient, dtype=torch.float64))


def test_token_weights():
    """Of 4 rows with 10 tokens that weigh 1/4 each, two; then of two rows that weigh 1/2 and 1/8."""
    even = [0.25, 0.25]
    assert token_weights(even, [1, 3], "sum", per_token=0.1 / 0.25, longest=5) == [0.25, 0.25]
    assert token_weights(even, [1, 4], "mean", per_token=0.1 / 0.25, longest=5) == [0.25, 0.0625]
    assert token_weights(even, [1, 4], "token", per_token=1 / (0.25 * 10), longest=5) == [0.1, 0.1]
    assert token_weights(even, [1, 4], "fixed", per_token=0.1 / 0.25, longest=5) == [0.05, 0.05]
    uneven = [0.5, 0.125]
    assert token_weights(uneven, [2, 4], "sum", per_token=1.0, longest=5) == [0.5, 0.125]
    assert token_weights(uneven, [2, 4], "mean", per_token=1.0, longest=5) == [0.25, 0.03125]
    # 0.5 * 2 + 0.125 * 4 = 1.5 tokens weigh 0.625 together
    assert token_weights(uneven, [2, 4], "token", per_token=0.625 / 1.5, longest=5) == [0.625 / 3, 0.625 / 12]


def test_schedules():
    constant = OptimConfig(lr=1.0, warmup=3)
    assert [learning_rate_schedule(constant, s, 10) for s in (1, 2, 3, 4, 10)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    linear = OptimConfig(lr=1.0, schedule="linear")
    assert [learning_rate_schedule(linear, s, 4) for s in (1, 2, 3, 4)] == [1.0, 0.75, 0.5, 0.25]
    cosine = OptimConfig(lr=2.0, schedule="cosine")
    assert learning_rate_schedule(cosine, 1, 10) == 2.0
    assert abs(learning_rate_schedule(cosine, 6, 10) - 1.0) < 1e-12  # half way: cos(pi/2) = 0
