"""Per-token policy losses, their importance ratios and token weights. R rows, T tokens.

Every loss takes the current log-probs with gradient, and the other inputs of the completions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from palaver.trainers.config.run import Level

LARGEST = 20.0  # of a log ratio; beyond, exp is of no use and would end in infinities


@dataclass(frozen=True, slots=True)
class LossInputs:
    """Inputs of a policy loss for one micro-batch.

    Attributes:
        advantage: (R, T) of each token; equal within a row unless tokens have values or a term of their own.
        old: (R, T) log-probs at sampling.
        mask: (R, T) true on sampled tokens.
        level: level of the importance ratio: token, turn or sequence.
        clip: bounds of the ratio below and above 1, beyond which the gradient is 0.
        dual_clip: maximum loss of a token of negative advantage, in units of |advantage|; None is no limit.
        truncate: maximum importance weight of `reinforce` for stale samples; None weights all by 1.
        correction: level of that weight; None is that of the ratio.
    """

    advantage: Tensor
    old: Tensor
    mask: Tensor
    level: Level = "token"
    clip: tuple[float, float] = (0.2, 0.2)
    dual_clip: float | None = None
    truncate: float | None = None
    correction: Level | None = None


Loss = Callable[[Tensor, LossInputs], Tensor]


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


def reinforce(logp: Tensor, inputs: LossInputs) -> Tensor:
    """L_rt = -A_rt log pi(a_rt | ...). REINFORCE (Williams 1992); MAGRPO (arXiv 2508.04652).

    With `truncate` c, times min(pi / pi_old, c) without gradient, for completions of an older policy.

    Args:
        logp: (R, T).
        inputs: of the same rows.

    Returns:
        (R, T).
    """
    loss = -inputs.advantage * logp
    if inputs.truncate is None:
        return loss
    level = inputs.correction or inputs.level
    return truncated(log_ratio(logp, inputs.old, inputs.mask, level), inputs.truncate) * loss


def ppo_clip(logp: Tensor, inputs: LossInputs) -> Tensor:
    """L_rt = -min(rho A, clip(rho, 1 - low, 1 + high) A). PPO (arXiv 1707.06347), equation 7.

    With `dual_clip` c and A < 0 it is at most -c A (Ye et al., arXiv 1912.09729, equation 5). The level of rho is that
    of `log_ratio`; unequal bounds are DAPO's (arXiv 2503.14476).

    Args:
        logp: (R, T).
        inputs: of the same rows.

    Returns:
        (R, T).
    """
    rho = log_ratio(logp, inputs.old, inputs.mask, inputs.level).exp()
    low, high = inputs.clip
    gain = torch.minimum(rho * inputs.advantage, rho.clamp(1 - low, 1 + high) * inputs.advantage)
    if inputs.dual_clip is not None:
        gain = torch.where(inputs.advantage < 0, torch.maximum(gain, inputs.dual_clip * inputs.advantage), gain)
    return -gain


def cispo(logp: Tensor, inputs: LossInputs) -> Tensor:
    """L_rt = -min(rho, 1 + high) A log pi(a_rt | ...). CISPO (arXiv 2506.13585), equation 4.

    The weight min(rho, 1 + high) is without gradient. No token loses its gradient, however far it has moved.

    Args:
        logp: (R, T).
        inputs: of the same rows.

    Returns:
        (R, T).
    """
    rho = truncated(log_ratio(logp, inputs.old, inputs.mask, inputs.level), 1 + inputs.clip[1])
    return -rho * inputs.advantage * logp


Aggregate = Literal["sum", "mean", "token", "fixed"]


def token_weights(
    rows: Sequence[float], lengths: Sequence[int], how: Aggregate, per_token: float, longest: int
) -> list[float]:
    """Weight of one token of each row, so that the loss is a weighted sum over tokens.

    With w the row's weight: `sum`: w; the sum of the log-probs of a completion (MAGRPO). `mean`: w / length; a
    completion has the same weight at any length (GRPO, arXiv 2402.03300). `token`: w * (sum of w) / (sum of
    w * length); with equal w every token of the batch has the same weight (DAPO, arXiv 2503.14476). `fixed`:
    w / longest; a sum divided by a constant, without length bias (Dr. GRPO, arXiv 2503.20783). Sums are over the whole
    batch, so that the result does not depend on micro-batches.

    Args:
        rows: weight of each row.
        lengths: sampled tokens of each row.
        how: the aggregation.
        per_token: (sum of w) / (sum of w * length) over the whole batch of this policy.
        longest: maximum tokens of a completion.
    """
    if how == "sum":
        return list(rows)
    if how == "mean":
        return [weight / max(1, length) for weight, length in zip(rows, lengths, strict=True)]
    if how == "fixed":
        return [weight / longest for weight in rows]
    return [weight * per_token for weight in rows]
