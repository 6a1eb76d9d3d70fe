"""Lambda-returns, value loss, whitening and value normalisation. Pure functions.

Axes: J joint steps, N agents, n samples. A tree of continuations is a chain where every step has one child.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

Total = Callable[..., Sequence[float]]


def alone(*numbers: float) -> Sequence[float]:
    """Sums over a single process: the numbers themselves."""
    return numbers


def lambda_returns(
    reward: Tensor,
    value: Tensor,
    parent: Tensor,
    turn: Tensor,
    discount: float,
    decay: float,
    bootstrap_values: Tensor | None = None,
    start: tuple[Tensor, Tensor] | None = None,
) -> Tensor:
    """Lambda-return G_j = r_j + discount * mean_c ((1 - decay) V_c + decay G_c), children c of j.

    G - V is the generalised advantage estimate (Schulman et al., arXiv 1506.02438, equation 16) on a chain; decay 0 is
    TD(0), decay 1 the discounted return. A leaf that terminated has the return r_j; one that was cut has
    r_j + discount * b_j, b_j the value of the state after it. Where an agent did not act, V_c is replaced by
    r_c + discount * (the same of c's children), so that lambda counts only its own decisions.

    Args:
        reward: (J, N).
        value: (J, N), NaN where the agent did not act.
        parent: (J,) index of the step before, -1 at a root.
        turn: (J,) index of the turn.
        discount: gamma in [0, 1], per turn.
        decay: lambda in [0, 1], per decision.
        bootstrap_values: (J, N) values of the states after cuts, 0 elsewhere; None where nothing was cut.
        start: (J, N) a and b, by which G_c <- a + b G_c is the return before the first of several decisions in a step;
            None where a step is one decision.

    Returns:
        (J, N), of the last decision of each step; where an agent did not act, the return that follows.
    """
    acted = ~value.isnan()
    if bootstrap_values is not None:
        reward = reward + discount * bootstrap_values
    target, next_value = reward.clone(), torch.where(acted, value, reward)
    base, slope = (None, None) if start is None else (start[0].nan_to_num(), start[1].nan_to_num(1.0))
    children = torch.zeros(len(reward), dtype=reward.dtype).index_add_(
        0, parent[parent >= 0], torch.ones(int((parent >= 0).sum()), dtype=reward.dtype)
    )
    for depth in range(int(turn.max()) if len(turn) else 0, 0, -1):
        steps = (turn == depth).nonzero()[:, 0]
        above = parent[steps]
        share = (discount / children[above])[:, None]
        full_return = target[steps] if base is None or slope is None else base[steps] + slope[steps] * target[steps]
        mixed = (1 - decay) * next_value[steps] + decay * full_return
        target.index_add_(0, above, share * torch.where(acted[above], mixed, full_return))
        next_value.index_add_(0, above, torch.where(acted[above], 0.0, share * next_value[steps]))
    return target


def value_loss(value: Tensor, target: Tensor, old: Tensor, clip: float | None, huber: float | None) -> Tensor:
    """Value loss: half the squared error, maximum over the value and the clipped value.

    Schulman et al., arXiv 1707.06347, as PPO implementations clip it: V_old + clip(V - V_old, -clip, clip). With
    `huber` d the loss of errors beyond d is linear: d (|e| - d / 2).

    Args:
        value: (n,).
        target: (n,).
        old: (n,) values before the update.
        clip: maximum change of a value; None is no limit.
        huber: d, above which the loss is linear; None is quadratic throughout.

    Returns:
        (n,).
    """

    def cost(error: Tensor) -> Tensor:
        if huber is None:
            return error.square() / 2
        size = error.abs()
        return torch.where(size <= huber, error.square() / 2, huber * (size - huber / 2))

    free = cost(value - target)
    if clip is None:
        return free
    return torch.maximum(free, cost(old + (value - old).clamp(-clip, clip) - target))


def whiten(advantage: Tensor, group: Tensor, groups: int, total: Total = alone) -> Tensor:
    """(A - mean) / population standard deviation over the rows of each group; 0 if all are equal.

    Unlike `advantages.normalize` it shifts: the mean of a critic's errors is no signal.

    Args:
        advantage: (R,).
        group: (R,) equal numbers for the rows that are whitened together.
        groups: number of groups.
        total: sums over the processes that share the rollout.
    """

    def summed(values: Tensor) -> Tensor:
        local_sums = torch.zeros(groups, dtype=advantage.dtype).index_add_(0, group, values)
        return torch.tensor(total(*local_sums.tolist()), dtype=advantage.dtype)

    count = summed(torch.ones_like(advantage)).clamp(min=1)
    centred = advantage - (summed(advantage) / count)[group]
    spread = (summed(centred.square()) / count).sqrt()[group]
    return torch.where(spread > 1e-6, centred / spread.clamp(min=1e-6), torch.zeros_like(centred))


@dataclass(slots=True)
class ValueNorm:
    """Running mean and standard deviation of a critic's targets, corrected for initial bias.

        m <- b m + (1 - b) mean(x)    q <- b q + (1 - b) mean(x^2)    d <- b d + (1 - b)
        mean = m / d                  variance = max(q / d - mean^2, 0.01)

    Yu et al., "The surprising effectiveness of PPO in cooperative multi-agent games", arXiv 2103.01955, after van
    Hasselt et al., arXiv 1602.07714.

    Attributes:
        beta: decay of the running statistics.
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
        """Normalise returns to targets of the critic."""
        return (value - self.mean) / self.std

    def denormalize(self, value: Tensor) -> Tensor:
        """Convert the critic's predictions to returns."""
        return value * self.std + self.mean
