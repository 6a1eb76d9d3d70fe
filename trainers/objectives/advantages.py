"""Credit, returns and advantages of completions: baselines and normalisation.

One function is one equation. J joint steps, N agents, R rows; `group` (R,) holds equal numbers for the completions
compared with each other, which are the G siblings of one agent at one turn.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from palaver.trainers.objectives.lambda_returns import AllSum, local_sum

ALMOST_EQUAL = 1e-6


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


def group_sizes(group: Tensor) -> Tensor:
    """(R,) number of rows in each row's group."""
    return torch.bincount(group)[group]


def group_mean(value: Tensor, group: Tensor) -> Tensor:
    """(R,) mean of `value` (R,) over each row's group."""
    total = torch.zeros(int(group.max()) + 1, dtype=value.dtype).index_add_(0, group, value)
    return (total / torch.bincount(group).clamp(min=1))[group]


def group_mean_baseline(returns: Tensor, group: Tensor) -> Tensor:
    """A = R - mean of the group. MAGRPO (arXiv 2508.04652): GRPO without its division."""
    return returns - group_mean(returns, group)


def leave_one_out_baseline(returns: Tensor, group: Tensor) -> Tensor:
    """A_g = R_g - mean over the other G-1 = G/(G-1) (R_g - mean). RLOO (arXiv 2402.14740).

    The other rows of a group of one are none: its advantage is 0.
    """
    size = group_sizes(group).to(returns.dtype)
    return (returns - group_mean(returns, group)) * size / (size - 1).clamp(min=1)


def max_baseline(returns: Tensor, group: Tensor) -> Tensor:
    """A = R - max of the group. ReMax (arXiv 2310.10505) with the best for the greedy answer."""
    top = torch.full((int(group.max()) + 1,), -torch.inf, dtype=returns.dtype)
    return returns - top.scatter_reduce(0, group, returns, "amax")[group]


def no_baseline(returns: Tensor, group: Tensor) -> Tensor:  # noqa: ARG001 - every baseline has the same two arguments
    """A = R. REINFORCE (Williams 1992)."""
    return returns.clone()


def value_baseline(returns: Tensor, value: Tensor) -> Tensor:
    """A = G - V(h), (R,) each; with lambda-returns GAE (arXiv 1506.02438)."""
    return returns - value


def group_std(value: Tensor, group: Tensor, kind: Literal["population", "unbiased"]) -> Tensor:
    """(R,) standard deviation of each row's group.

    Sum of squares over G (population) or G-1 (unbiased).
    """
    squares = (value - group_mean(value, group)) ** 2
    size = group_sizes(group).to(value.dtype)
    divisor = size if kind == "population" else (size - 1).clamp(min=1)
    return (group_mean(squares, group) * size / divisor).sqrt()


def pooled_std(
    value: Tensor, group: Tensor, kind: Literal["population", "unbiased"], total: AllSum = local_sum
) -> Tensor:
    """() standard deviation about the group means over all rows.

    Sum of squares over R (population), or over R less the number of groups (unbiased).
    """
    squared_error = (value - group_mean(value, group)) ** 2
    squares, rows, groups = total(
        float(squared_error.sum()), float(len(value)), float((torch.bincount(group) > 0).sum())
    )
    divisor = rows if kind == "population" else max(1.0, rows - groups)
    return torch.tensor((squares / divisor) ** 0.5, dtype=value.dtype)


def divisor(
    returns: Tensor,
    group: Tensor,
    how: Literal["std", "batch"],
    kind: Literal["population", "unbiased"] = "population",
    total: AllSum = local_sum,
) -> Tensor:
    """(R,) standard deviation that `normalize` divides by; 1 where it is below 1e-6."""
    if how == "std":
        spread = group_std(returns, group, kind)
    else:
        spread = pooled_std(returns, group, kind, total).expand_as(returns)
    return torch.where(spread > ALMOST_EQUAL, spread, torch.ones_like(spread))


def normalize(
    advantage: Tensor,
    returns: Tensor,
    group: Tensor,
    how: Literal["none", "std", "batch"],
    kind: Literal["population", "unbiased"] = "population",
    total: AllSum = local_sum,
) -> Tensor:
    """Divide advantages by a standard deviation of the returns, without shifting them.

    `std`: by the standard deviation of the group's returns (GRPO, arXiv 2402.03300). `batch`: by the pooled standard
    deviation of all returns about the means of their groups. Both are taken from the returns, so that MARLOO keeps its
    factor G/(G-1) over MAGRPO. One below 1e-6 is replaced by 1, so that noise of equal rewards is not amplified.

    Args:
        advantage: (R,).
        returns: (R,) returns that the advantages were computed from.
        group: (R,).
        how: `none` leaves the advantages unchanged.
        kind: type of standard deviation.
        total: sums over the processes that share the rollout; a group is on one of them.

    Returns:
        (R,).
    """
    return advantage if how == "none" else advantage / divisor(returns, group, how, kind, total)
