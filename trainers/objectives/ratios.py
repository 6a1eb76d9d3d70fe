"""Importance ratios of the current policy to the sampling policy. R rows, T tokens."""

from __future__ import annotations

import torch
from torch import Tensor

from palaver.trainers.config.run import Level

LARGEST = 20.0  # of a log ratio; beyond, exp is of no use and would end in infinities


def log_ratio(logp: Tensor, old: Tensor, mask: Tensor, level: Level) -> Tensor:
    """Log importance ratio log rho of every token.

    `token`: log pi(a_t) - log pi_old(a_t) (PPO, arXiv 1707.06347). `turn`: their mean over the tokens of the completion
    (GSPO, arXiv 2507.18071, equation 7; ReMA, arXiv 2503.09501, turn-level ratio). `sequence`: their sum, the ratio of
    the whole completions, which grows with length. The last two are equal for all tokens of a row.

    Args:
        logp: (R, T) current log-probs.
        old: (R, T) log-probs at sampling.
        mask: (R, T) true on sampled tokens.
        level: level of the ratio.

    Returns:
        (R, T), 0 on padding, in [-20, 20].
    """
    difference = torch.where(mask, logp - old, 0.0)
    if level == "token":
        return difference.clamp(-LARGEST, LARGEST)
    total = difference.sum(dim=1, keepdim=True)
    if level == "turn":
        total = total / mask.sum(dim=1, keepdim=True).clamp(min=1)
    return torch.where(mask, total.clamp(-LARGEST, LARGEST), 0.0)


def truncated(log_rho: Tensor, max_ratio: float) -> Tensor:
    """min(rho, max_ratio) without gradient: truncated importance weight of stale samples.

    Truncated importance sampling (Ionides 2008; for rollouts of language models Yao et al. 2025, as TRL and verl use).
    """
    return log_rho.detach().exp().clamp(max=max_ratio)


def approximate_kl(logp: Tensor, old: Tensor, mask: Tensor) -> Tensor:
    """() mean over sampled tokens of exp(d) - 1 - d with d = log pi - log pi_old.

    k3 of KL(pi_old || pi).
    """
    d = torch.where(mask, logp - old, 0.0).clamp(-LARGEST, LARGEST)
    return (d.exp() - 1 - d).sum() / mask.sum().clamp(min=1)
