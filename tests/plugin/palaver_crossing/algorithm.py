"""MAGRPO with another baseline: the median return of the group, which one lucky joint action does not move."""

from __future__ import annotations

from dataclasses import replace

import torch

from palaver.trainers.algorithms.magrpo import MAGRPO


def group_median(returns: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """A_i = R_i - median of the returns of its group. Shapes (R,), (R,) -> (R,)."""
    advantages = torch.empty_like(returns)
    for group in groups.unique():
        members = groups == group
        advantages[members] = returns[members] - returns[members].quantile(0.5)
    return advantages


MAGRPO_MEDIAN = replace(
    MAGRPO, name="magrpo-median", paper="none", baseline=group_median, settings={"algorithm.group_size": 8}
)
