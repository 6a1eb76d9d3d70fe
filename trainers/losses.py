"""Losses: what each sampled token pays, and how tokens are weighed against each other. R rows, T tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor


def reinforce(logp: Tensor, advantage: Tensor) -> Tensor:
    """L_rt = -A_r log pi(a_rt | ...). Williams 1992; MAGRPO (arXiv 2508.04652), equation of the policy gradient.

    Args:
        logp: (R, T).
        advantage: (R,).

    Returns:
        (R, T).
    """
    return -advantage[:, None] * logp


def kl_k2(logp: Tensor, reference: Tensor) -> Tensor:
    """Per-token estimate of KL(pi || pi_ref): d^2 / 2 with d = log pi_ref - log pi; never below 0.

    Schulman, "Approximating KL divergence" (2020), estimator k2. On the policy's own samples (temperature 1, no top-k
    or top-p) its mean gradient is that of KL(pi || pi_ref) of the next token after each prefix, the prefix held fixed:
    the pull on a token grows with log(pi / pi_ref) without bound.

    Args:
        logp: (R, T).
        reference: (R, T), without gradient.

    Returns:
        (R, T).
    """
    return (reference - logp).square() / 2


def kl_k3(logp: Tensor, reference: Tensor) -> Tensor:
    """Per-token estimate of KL(pi || pi_ref): exp(d) - d - 1 with d = log pi_ref - log pi; never below 0.

    Schulman, "Approximating KL divergence" (2020), estimator k3. Its value is unbiased, its gradient is not: on the
    policy's own samples that is, in the mean, the gradient of KL(pi_ref || pi), (1 - pi_ref / pi) for each token. The
    pull on a token that the reference never says stays below 1, so such tokens can be bought with little reward.

    Args:
        logp: (R, T).
        reference: (R, T), without gradient.

    Returns:
        (R, T).
    """
    d = reference - logp
    return torch.exp(d) - d - 1


KL = {"k2": kl_k2, "k3": kl_k3}


def token_weights(lengths: Sequence[int], how: Literal["sum", "mean", "token"], rows: int, tokens: int) -> list[float]:
    """Weight of one token of each row, so that the loss is a weighted sum over tokens.

    `sum`: 1/rows; an utterance counts with the sum of its log-probs (MAGRPO). `mean`: 1/(rows * length); every
    utterance weighs the same (GRPO, arXiv 2402.03300). `token`: 1/tokens; every token weighs the same (DAPO, arXiv
    2503.14476). The totals are those of the whole batch: splitting it into micro-batches changes nothing.

    Args:
        lengths: sampled tokens of each row.
        how: the aggregation.
        rows: utterances in the whole batch of this policy.
        tokens: sampled tokens in the whole batch of this policy.
    """
    if how == "sum":
        return [1.0 / rows] * len(lengths)
    if how == "mean":
        return [1.0 / (rows * max(1, length)) for length in lengths]
    return [1.0 / max(1, tokens)] * len(lengths)
