"""Which estimator belongs where, by enumeration on a policy of three tokens whose logits are its parameters."""

from __future__ import annotations

import pytest
import torch

from palaver.trainers.objectives.kl import KL

REFERENCE = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)


def policy() -> torch.Tensor:
    """Logits near the reference: log-odds moved by 0.05 and -0.05."""
    return (REFERENCE.log() + torch.tensor([0.05, -0.05, 0.0])).requires_grad_()


def divergence(p: torch.Tensor, q: torch.Tensor) -> torch.Tensor:
    return (p * (p / q).log()).sum()


def gradient(value: torch.Tensor, logits: torch.Tensor) -> torch.Tensor:
    return torch.autograd.grad(value, logits, retain_graph=True)[0]


def scored(name: str, logits: torch.Tensor) -> torch.Tensor:
    """E[k grad log pi], what a reward or an advantage of -k descends."""
    logp = logits.log_softmax(0)
    k = KL[name](logp.detach(), REFERENCE.log())
    return gradient((logp.exp().detach() * k * logp).sum(), logits)


def test_in_the_reward_k1_is_the_gradient_of_the_divergence():
    logits = policy()
    expected = gradient(divergence(logits.softmax(0), REFERENCE), logits)
    torch.testing.assert_close(scored("k1", logits), expected)


def test_in_the_reward_k3_takes_the_other_divergence_away_again():
    logits = policy()
    p = logits.softmax(0)
    expected = gradient(divergence(p, REFERENCE), logits) - gradient(divergence(REFERENCE, p), logits)
    torch.testing.assert_close(scored("k3", logits), expected)


@pytest.mark.parametrize("name", ["k2", "k3"])
def test_near_the_reference_only_k1_pulls_in_the_reward(name):
    """Drift of 0.05: k2 and k3 are of its square, 0.00125 at most, and pull less than a twentieth as much."""
    logits = policy()
    assert scored(name, logits).norm() < 0.05 * scored("k1", logits).norm()


def test_in_the_loss_k1_teaches_nothing_and_k2_the_gradient_of_the_divergence():
    logits = policy()
    logp = logits.log_softmax(0)
    terms = {name: gradient((logp.exp().detach() * KL[name](logp, REFERENCE.log())).sum(), logits) for name in KL}
    torch.testing.assert_close(terms["k1"], torch.zeros_like(logits))
    torch.testing.assert_close(terms["k2"], gradient(divergence(logits.softmax(0), REFERENCE), logits))
    torch.testing.assert_close(terms["k3"], gradient(divergence(REFERENCE, logits.softmax(0)), logits))
