"""HAPPO's factor: likelihood ratio of each joint action under the agents already updated.

Kuba et al., arXiv 2109.11251, algorithm 4. Axes: J joint steps, R rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from palaver.trainers.rollout.batch import Batch


def joint_factor(log_rho: Tensor, batch: Batch, clamp: float) -> Tensor:
    """(R,) M_r = mean of exp(clip(log rho_j, -clamp, clamp)) over the joint steps j of a row."""
    rho = log_rho.clamp(-clamp, clamp).exp()
    total = torch.zeros(len(batch), dtype=rho.dtype).index_add_(0, batch.member_row, rho[batch.member_step])
    factor = total / torch.bincount(batch.member_row, minlength=len(batch))
    return factor if batch.action_row is None else factor[batch.action_row]


def at_clamp(log_rho: Tensor, batch: Batch, rows: Sequence[int], clamp: float) -> int:
    """Number of rows in a joint step whose |log rho_j| is at or above the clamp."""
    held = set(batch.member_row[(log_rho.abs() >= clamp)[batch.member_step]].tolist())
    return len(held.intersection(rows))


def joint_log_ratio(before: Mapping[int, Tensor], after: Mapping[int, Tensor], batch: Batch, summed: bool) -> Tensor:
    """(J,) sum of the log ratios of the completions `before` of each joint step.

    Args:
        before: row -> (T,) log-probs before the update.
        after: current log-probs of the same rows.
        batch: batch that has the rows; other rows count 0.
        summed: True sums the log ratio over tokens (whole completion), False takes the mean (its root of degree T).
    """
    by_row = torch.zeros(len(batch), dtype=torch.float64)
    for row, old in before.items():
        log_ratio = after[row].double() - old.double()
        by_row[row] = log_ratio.sum() if summed else log_ratio.mean()
    by_action = batch.by_action(by_row)
    return by_action.new_zeros(len(batch.steps)).index_add_(0, batch.member_step, by_action[batch.member_row])
