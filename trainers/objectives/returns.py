"""Credit and returns of every completion. Axes: J joint steps, N agents, R rows."""

from __future__ import annotations

import torch
from torch import Tensor


def shared_reward(reward: Tensor) -> Tensor:
    """Credit every agent with the team's reward: r_jn <- mean over n of r_jn. (J, N) -> (J, N).

    With a shared reward this changes nothing. MAGRPO (arXiv 2508.04652), section 4.
    """
    return reward.mean(dim=1, keepdim=True).expand_as(reward)


def individual_reward(reward: Tensor) -> Tensor:
    """Credit every agent with its own reward. (J, N) -> (J, N)."""
    return reward


def mixed_reward(reward: Tensor) -> Tensor:
    """r_jn <- mean over n of r_jn + r_jn, the team's and its own. (J, N) -> (J, N).

    AT-GRPO (arXiv 2510.11062), equation 3 with alpha = 1.
    """
    return shared_reward(reward) + reward


def tree_returns(reward: Tensor, parent: Tensor, turn: Tensor, discount: float, aside: Tensor | None = None) -> Tensor:
    """Return of each joint step in a tree: R_j = r_j + discount * mean over children c of R_c.

    A chain is a tree with one child each, where this is the usual discounted reward-to-go. MAGRPO (arXiv 2508.04652).
    Alternatives that an episode did not take are no children of the joint step that they leave (C3, arXiv 2603.06859).

    Args:
        reward: (J, N).
        parent: (J,) index of the step before, -1 at a root.
        turn: (J,) index of the turn.
        discount: gamma in [0, 1].
        aside: (J,) bool, the alternatives and what comes after them; None: there are none.

    Returns:
        (J, N).
    """
    counted = parent >= 0
    if aside is not None:
        counted &= aside == aside[parent.clamp(min=0)]
    returns, above = reward.clone(), parent[counted]
    children = torch.zeros(len(reward), dtype=reward.dtype).index_add_(
        0, above, torch.ones(len(above), dtype=reward.dtype)
    )
    for depth in range(int(turn.max()) if len(turn) else 0, 0, -1):
        steps = ((turn == depth) & counted).nonzero()[:, 0]
        above = parent[steps]
        returns.index_add_(0, above, discount * returns[steps] / children[above, None])
    return returns


def row_returns(returns: Tensor, step: Tensor, row: Tensor, agent: Tensor) -> Tensor:
    """Return of each completion: the mean return of the joint steps it took part in.

    With aligned joint actions a completion is in one step; with crossed ones in G^(N-1), and the mean over them is the
    marginal value of the completion against its partners' candidates.

    Args:
        returns: (J, N).
        step: (M,) joint step of each membership.
        row: (M,) row of each membership.
        agent: (R,) column of each row in `returns`.

    Returns:
        (R,).
    """
    count = torch.bincount(row, minlength=len(agent)).to(returns.dtype)
    total = torch.zeros(len(agent), dtype=returns.dtype).index_add_(0, row, returns[step, agent[row]])
    return total / count
