"""KL penalty to a reference, in the loss, the reward, or the advantage of each token.

Per token, k estimates KL(pi || pi_ref) by `kl.estimator`, clamped to [-`kl.clamp`, `kl.clamp`].

    loss        L_rt <- L_rt + coef k_rt                      differentiable
    reward      r_r  <- r_r - coef sum_t k_rt                 before returns and baseline, so that it acts over turns
    advantage   A_rt <- A_r + coef (mean - k_rt)              after normalisation; without gradient

With `kl.target` the coefficient follows the divergence (`adapted`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from palaver.trainers.config.kl import KLConfig
from palaver.trainers.objectives.lambda_returns import AllSum, local_sum

MOST = 0.2  # largest error that one step corrects, as a share of the target


def kl_k1(logp: Tensor, reference: Tensor) -> Tensor:
    """Per-token estimate of KL(pi || pi_ref): -d with d = log pi_ref - log pi; of either sign.

    Schulman, "Approximating KL divergence" (2020), estimator k1. As a term of a loss it is useless: on the policy's own
    samples the mean of its gradient is 0.

    Args:
        logp: (R, T).
        reference: (R, T), without gradient.

    Returns:
        (R, T).
    """
    return logp - reference


def kl_k2(logp: Tensor, reference: Tensor) -> Tensor:
    """Per-token estimate of KL(pi || pi_ref): d^2 / 2 with d = log pi_ref - log pi.

    Never below 0. Schulman, "Approximating KL divergence" (2020), estimator k2. On the policy's own samples its mean
    gradient is that of KL(pi || pi_ref) of the next token after each prefix, the prefix held fixed: the gradient of a
    token grows with log(pi / pi_ref) without bound.

    Args:
        logp: (R, T).
        reference: (R, T), without gradient.

    Returns:
        (R, T).
    """
    return (reference - logp).square() / 2


def kl_k3(logp: Tensor, reference: Tensor) -> Tensor:
    """Per-token estimate of KL(pi || pi_ref): exp(d) - d - 1 with d = log pi_ref - log pi.

    Never below 0. Schulman, "Approximating KL divergence" (2020), estimator k3. Its value is unbiased, its gradient is
    not: on the policy's own samples that is, in the mean, the gradient of KL(pi_ref || pi), (1 - pi_ref / pi) for each
    token. It stays below 1 for a token that the reference never samples, so that a small reward can outweigh it.

    Args:
        logp: (R, T).
        reference: (R, T), without gradient.

    Returns:
        (R, T).
    """
    d = reference - logp
    return torch.exp(d) - d - 1


KL = {"k1": kl_k1, "k2": kl_k2, "k3": kl_k3}


def resolved_estimator(config: KLConfig) -> str:
    """Name of the estimator, `auto` resolved by place."""
    if config.estimator != "auto":
        return config.estimator
    return "k3" if config.place == "loss" else "k1"


def penalty(logp: Tensor, reference: Tensor, mask: Tensor, config: KLConfig) -> Tensor:
    """KL penalty k of every token, 0 on padding. Any shape; (R, T) of a batch.

    Args:
        logp: (R, T).
        reference: (R, T), without gradient.
        mask: (R, T) true on sampled tokens.
        config: estimator and clamp.
    """
    k = KL[resolved_estimator(config)](torch.where(mask, logp, 0.0), torch.where(mask, reference, 0.0))
    return k if config.clamp is None else k.clamp(-config.clamp, config.clamp)


def token_terms(
    k: Mapping[int, Tensor],
    agent_of: Mapping[int, int],
    coefs: Sequence[float],
    total: AllSum = local_sum,
) -> dict[int, Tensor]:
    """coef (mean - k_t) of every token, to be added to its advantage.

    The mean is over all n tokens of its agent.
    The terms of an agent sum to 0, so that only drift beyond its mean is penalised; the mean includes the token itself,
    which shrinks the gradient by 1 - 1/n. Computed over the whole rollout of all processes, before minibatches:
    OpenPipe ART, which this follows, does it within each packed batch, so that it depends on packing.

    Args:
        k: row -> (T,).
        agent_of: row -> index of its agent.
        coefs: the coefficient of each agent.
        total: sums over the processes that share the rollout.
    """
    agents = len(coefs)
    sums, counts = [0.0] * agents, [0.0] * agents
    for row, values in k.items():
        sums[agent_of[row]] += float(values.sum())
        counts[agent_of[row]] += len(values)
    everywhere = total(*sums, *counts)
    means = [value / max(1.0, n) for value, n in zip(everywhere[:agents], everywhere[agents:], strict=True)]
    return {row: coefs[agent_of[row]] * (means[agent_of[row]] - values) for row, values in k.items()}


def adapted(coef: float, kl: float, n: float, target: float, horizon: float) -> float:
    """coef (1 + e n / horizon), e = clip((kl - target) / target, -0.2, 0.2).

    A KL above the target raises it. Ziegler et al., "Fine-tuning language models from human preferences", arXiv
    1909.08593, section 2.2, where n / horizon is K = 0.1; with n and horizon as in their published code.

    Args:
        coef: of the step.
        kl: mean over its completions of log pi - log pi_ref of the whole completion, in nats.
        n: completions of the step.
        target: target of kl.
        horizon: completions in which the coefficient may change by a factor of exp(0.2).
    """
    error = max(-MOST, min(MOST, (kl - target) / target))
    return coef * (1 + error * n / horizon)


def describe(k: Mapping[int, Tensor], advantage: Tensor, config: KLConfig) -> dict[str, float]:
    """Statistics of the KL penalty over some rows.

    Mean k1 and k3, largest |k1|, share of clamped tokens, and correlation of a row's mean k1 with its advantage.

    Args:
        k: row -> (T,) log pi - log pi_ref.
        advantage: (R,) from the reward.
        config: estimator and clamp.
    """
    if not k:
        return {}
    tokens = torch.cat(list(k.values())).double()
    means = torch.stack([values.double().mean() for values in k.values()])
    row_advantage = advantage[list(k)].double()
    both = torch.stack([means, row_advantage.to(means)])
    steady = len(k) < 2 or float(both.std(dim=1).min()) < 1e-6  # rounding
    zero = torch.zeros_like(tokens)
    size = KL[resolved_estimator(config)](tokens, zero).abs()
    return {
        "k1": float(tokens.mean()),
        "k3": float(kl_k3(tokens, zero).mean()),
        "k1_max": float(tokens.abs().max()),
        "kl_clamped": float((size >= config.clamp).double().mean()) if config.clamp is not None else 0.0,
        "k1_with_advantage": 0.0 if steady else float(torch.corrcoef(both)[0, 1]),
    }
