"""Lambda-returns, value loss, whitening and value normalisation. Pure functions.

Axes: J joint steps, N agents, n samples, R rows. Joint steps form trees of continuations; a tree in which every step
has one child is a chain, the trajectory of the literature.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

AllSum = Callable[..., Sequence[float]]  # numbers of this process -> their sums over all processes


def local_sum(*numbers: float) -> Sequence[float]:
    """Sums over this process alone: the numbers themselves."""
    return numbers


def lambda_returns(
    reward: Tensor,
    value: Tensor,
    parent: Tensor,
    turn: Tensor,
    discount: float,
    lambda_: float,
    bootstrap_values: Tensor | None = None,
    start: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Lambda-returns G_j = r_j + discount * mean_c ((1 - lambda) V_c + lambda G_c).

    The mean is over the children c of step j. On a chain G - V is the generalised advantage estimate (Schulman et al.,
    arXiv 1506.02438, equation 16); lambda 0 is TD(0), lambda 1 the discounted return. A leaf that terminated has the
    return r_j; one that was cut has r_j + discount * b_j, with b_j the value of the state after it. Where an agent did
    not act, V_c is r_c + discount * (mean of V over c's children), so that only its own decisions count for lambda.

    Args:
        reward: (J, N).
        value: (J, N), NaN where the agent did not act.
        parent: (J,) index of the step before, -1 at a root.
        turn: (J,) index of the turn; that of a child is one above its parent's.
        discount: gamma in [0, 1], per turn.
        lambda_: lambda in [0, 1], per decision.
        bootstrap_values: (J, N) values of the states after cuts, 0 elsewhere; None where nothing was cut.
        start: a and b, (J, N) each; a + b G_c is the return before the first of several decisions in step c, and
            replaces G_c above. None where a step is one decision.

    Returns:
        (J, N), the return of the last decision of each step; where an agent did not act, the return that follows.
    """
    acted = ~value.isnan()
    if bootstrap_values is not None:
        reward = reward + discount * bootstrap_values
    returns = reward.clone()
    next_value = torch.where(acted, value, reward)
    first_decision = None if start is None else (start[0].nan_to_num(), start[1].nan_to_num(1.0))
    parents_of_all = parent[parent >= 0]
    children = torch.zeros(len(reward), dtype=reward.dtype).index_add_(
        0, parents_of_all, torch.ones(len(parents_of_all), dtype=reward.dtype)
    )  # (J,) number of children
    for depth in range(int(turn.max()) if len(turn) else 0, 0, -1):
        steps = (turn == depth).nonzero()[:, 0]
        parents = parent[steps]
        weight = (discount / children[parents])[:, None]
        full_return = returns[steps]
        if first_decision is not None:
            offset, slope = first_decision
            full_return = offset[steps] + slope[steps] * full_return
        mixed = (1 - lambda_) * next_value[steps] + lambda_ * full_return
        returns.index_add_(0, parents, weight * torch.where(acted[parents], mixed, full_return))
        next_value.index_add_(0, parents, torch.where(acted[parents], 0.0, weight * next_value[steps]))
    return returns


def value_loss(value: Tensor, target: Tensor, old_value: Tensor, clip: float | None, huber: float | None) -> Tensor:
    """Clipped value loss: the larger half squared error of V and of the clipped V.

    The clipped value is V_old + clip(V - V_old, -clip, clip), as in implementations of PPO (Schulman et al.,
    arXiv 1707.06347). With `huber` = d the loss of an error |e| > d is linear: d (|e| - d / 2).

    Args:
        value: (n,).
        target: (n,).
        old_value: (n,) values before the update.
        clip: maximum change of a value; None does not clip.
        huber: d, above which the loss is linear; None is quadratic everywhere.

    Returns:
        (n,).
    """

    def error_loss(error: Tensor) -> Tensor:
        if huber is None:
            return error.square() / 2
        size = error.abs()
        return torch.where(size <= huber, error.square() / 2, huber * (size - huber / 2))

    unclipped_loss = error_loss(value - target)
    if clip is None:
        return unclipped_loss
    clipped_value = old_value + (value - old_value).clamp(-clip, clip)
    return torch.maximum(unclipped_loss, error_loss(clipped_value - target))


def whiten(advantage: Tensor, group: Tensor, groups: int, total: AllSum = local_sum) -> Tensor:
    """Whiten advantages: (A - mean) / population standard deviation of the row's group.

    A group of equal advantages has 0. Unlike `advantages.normalize` this subtracts the mean: the mean error of a critic
    is no signal.

    Args:
        advantage: (R,).
        group: (R,) index of the row's group; 0 <= group < groups.
        groups: number of groups.
        total: sums over the processes that share the rollout.

    Returns:
        (R,).
    """

    def group_sums(values: Tensor) -> Tensor:
        local_sums = torch.zeros(groups, dtype=advantage.dtype).index_add_(0, group, values)
        return torch.tensor(total(*local_sums.tolist()), dtype=advantage.dtype)

    count = group_sums(torch.ones_like(advantage)).clamp(min=1)
    centred = advantage - (group_sums(advantage) / count)[group]
    spread = (group_sums(centred.square()) / count).sqrt()[group]
    return torch.where(spread > 1e-6, centred / spread.clamp(min=1e-6), torch.zeros_like(centred))


@dataclass(slots=True)
class ValueNorm:
    """Running mean and standard deviation of a critic's targets, corrected for initial bias.

        m <- b m + (1 - b) mean(x)    q <- b q + (1 - b) mean(x^2)    d <- b d + (1 - b)
        mean = m / d                  variance = max(q / d - mean^2, 0.01)

    Yu et al., "The surprising effectiveness of PPO in cooperative multi-agent games", arXiv 2103.01955, after van
    Hasselt et al., arXiv 1602.07714.

    Attributes:
        beta: b, decay of the running statistics.
        m: running mean of x, biased towards 0 at first.
        q: running mean of x^2, likewise.
        d: running mean of 1, which corrects the bias.
    """

    beta: float = 0.99999
    m: float = 0.0
    q: float = 0.0
    d: float = 0.0

    @property
    def mean(self) -> float:
        """Running mean; 0 before the first update."""
        return self.m / max(self.d, 1e-5)

    @property
    def std(self) -> float:
        """Running standard deviation; 1 before the first update, never below 0.1."""
        return max(self.q / max(self.d, 1e-5) - self.mean**2, 0.01) ** 0.5 if self.d else 1.0

    def update(self, total: float, squares: float, count: float) -> None:
        """Update with the sum and the sum of squares of `count` targets."""
        if count:
            self.m = self.beta * self.m + (1 - self.beta) * total / count
            self.q = self.beta * self.q + (1 - self.beta) * squares / count
            self.d = self.beta * self.d + (1 - self.beta)

    def normalize(self, value: Tensor) -> Tensor:
        """Normalise returns of any shape to targets of the critic."""
        return (value - self.mean) / self.std

    def denormalize(self, value: Tensor) -> Tensor:
        """Convert the critic's predictions to returns."""
        return value * self.std + self.mean
