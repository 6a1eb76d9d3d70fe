"""Advantage Alignment: credit for helping another agent where the past was good.

Duque et al., arXiv 2406.14662; for language models arXiv 2511.19405. J joint steps, N agents.
"""

from __future__ import annotations

import torch
from torch import Tensor


def past_advantage(advantage: Tensor, parent: Tensor, turn: Tensor, discount: float) -> Tensor:
    """w_t = sum over k < t of discount^(t-k) A_k, along each path. (J, N) -> (J, N).

    Args:
        advantage: (J, N).
        parent: (J,) index of the step before, -1 at a root.
        turn: (J,) index of the turn.
        discount: gamma in [0, 1].
    """
    past = torch.zeros_like(advantage)
    for depth in range(1, int(turn.max()) + 1 if len(turn) else 0):
        steps = ((turn == depth) & (parent >= 0)).nonzero()[:, 0]
        above = parent[steps]
        past[steps] = discount * (past[above] + advantage[above])
    return past


def aligned_advantage(advantage: Tensor, parent: Tensor, turn: Tensor, discount: float, beta: float) -> Tensor:
    """A*_i,t = A_i,t + beta w_i,t times the sum of the other agents' A_j,t. (J, N) -> (J, N).

    `w` is `past_advantage`. The authors' code for language models multiplies it by gamma once more, which is a smaller
    beta. With A_1 = [1, 2, 3], A_2 = [1, 1, 1], beta = gamma = 1: w_1 = [0, 1, 3], A*_1 = [1, 3, 6].
    """
    others = advantage.sum(dim=1, keepdim=True) - advantage
    return advantage + beta * past_advantage(advantage, parent, turn, discount) * others
