"""Corrections of samples that are not of the policy before the update. R rows, T tokens.

With pi_0 the policy before the update and mu the one that sampled, rho = pi_0 / mu of a token or completion, by
`losses.log_ratio`. Its truncated weight is `losses.truncated`.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def within(log_rho: Tensor, bounds: tuple[float, float]) -> Tensor:
    """m_rt = 1 if low <= rho_rt <= high, else 0: masked importance sampling.

    IcePop, arXiv 2510.18855.

    Args:
        log_rho: (R, T).
        bounds: low and high.

    Returns:
        (R, T) bool.
    """
    rho = log_rho.detach().exp()
    return torch.logical_and(rho >= bounds[0], rho <= bounds[1])


def without_masked_rows(rows: Sequence[float], masked: Sequence[bool], whole: float, left: float) -> list[float]:
    """w'_r = w_r (sum of w) / (sum of w over rows that are not masked), 0 at masked rows.

    A mean over rows becomes one over those that are left.

    Args:
        rows: weight of each row.
        masked: true at rows without a token left.
        whole: sum of the weights of the batch.
        left: sum of those of its rows that are not masked.
    """
    scale = whole / left if left else 0.0
    return [0.0 if gone else weight * scale for weight, gone in zip(rows, masked, strict=True)]
