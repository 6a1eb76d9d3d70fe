"""Direct preference optimisation of a team.

Loss of a pair of joint actions, and row weights. Pure functions. P pairs, J joint steps, M memberships, R rows.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


def dpo_loss(margin: Tensor, beta: float) -> Tensor:
    """Loss of a pair, -log sigmoid(beta h). DPO (arXiv 2305.18290), equation 7. (P,) -> (P,).

    h = sum_i [(log pi_i(w) - log ref_i(w)) - (log pi_i(l) - log ref_i(l))] over the agents i, with w the better and l
    the worse joint action: a team's log-probability of a joint action is the sum of its agents'.
    """
    return -logsigmoid(beta * margin)


def dpo_slope(margin: Tensor, beta: float) -> Tensor:
    """Negative slope of the loss, -d loss / d h = beta sigmoid(-beta h). (P,) -> (P,)."""
    return beta * torch.sigmoid(-beta * margin)


def step_log_ratios(k: Tensor, member_row: Tensor, member_step: Tensor, steps: int) -> Tensor:
    """(J,) sum over the agents of log pi - log ref of their completions at a joint step.

    Args:
        k: (R,) log pi - log ref of every completion, summed over its tokens.
        member_row: (M,).
        member_step: (M,).
        steps: J.
    """
    return torch.zeros(steps, dtype=k.dtype).index_add_(0, member_step, k[member_row])


def row_weights(
    slope: Tensor, better: Tensor, worse: Tensor, member_row: Tensor, member_step: Tensor, R: int
) -> Tensor:
    """(R,) gradient weight of each completion.

    It is + slope in the better and - slope in the worse action. The gradient of the sum of the pairs' losses is - sum
    over rows of weight times the gradient of log pi(row), for h is a sum of log-probabilities.

    Args:
        slope: (P,) `dpo_slope`.
        better: (P,) joint step of each pair.
        worse: (P,) likewise.
        member_row: (M,) row of each membership.
        member_step: (M,) joint step of each membership.
        R: rows.
    """
    steps = int(member_step.max()) + 1
    step_weight = torch.zeros(steps, dtype=slope.dtype).index_add_(0, better, slope).index_add_(0, worse, -slope)
    return torch.zeros(R, dtype=slope.dtype).index_add_(0, member_row, step_weight[member_step])
