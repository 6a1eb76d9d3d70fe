"""Losses and token weights, against numbers worked out by hand."""

from __future__ import annotations

import math

import torch

from palaver.trainers.config import OptimConfig
from palaver.trainers.learner import learning_rate
from palaver.trainers.losses import Said, kl_k2, kl_k3, reinforce, token_weights


def test_reinforce():
    logp = torch.tensor([[-1.0, -2.0], [-3.0, 0.0]])
    advantage = torch.tensor([[2.0, 2.0], [-1.0, -1.0]])
    assert reinforce(logp, Said(advantage, logp, torch.ones(2, 2) > 0)).tolist() == [[2.0, 4.0], [-3.0, 0.0]]


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
    assert token_weights([1, 3], "sum", rows=4, tokens=10, longest=5) == [0.25, 0.25]
    assert token_weights([1, 4], "mean", rows=4, tokens=10, longest=5) == [0.25, 0.0625]
    assert token_weights([1, 4], "token", rows=4, tokens=10, longest=5) == [0.1, 0.1]
    assert token_weights([1, 4], "fixed", rows=4, tokens=10, longest=5) == [0.05, 0.05]


def test_schedules():
    constant = OptimConfig(lr=1.0, warmup=3)
    assert [learning_rate(constant, s, 10) for s in (1, 2, 3, 4, 10)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    linear = OptimConfig(lr=1.0, schedule="linear")
    assert [learning_rate(linear, s, 4) for s in (1, 2, 3, 4)] == [1.0, 0.75, 0.5, 0.25]
    cosine = OptimConfig(lr=2.0, schedule="cosine")
    assert learning_rate(cosine, 1, 10) == 2.0
    assert abs(learning_rate(cosine, 6, 10) - 1.0) < 1e-12  # half way: cos(pi/2) = 0
