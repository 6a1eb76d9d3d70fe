"""A moving mean of each agent's returns, as a baseline: SPIRAL's role-conditioned advantage estimation."""

from __future__ import annotations

import torch
from torch import Tensor

from palaver.trainers.table import Table
from palaver.trainers.world import World


def moved(mean: float, seen: float, decay: float) -> float:
    """b <- decay b + (1 - decay) R. Liu et al., arXiv 2506.24119, equation 7."""
    return decay * mean + (1 - decay) * seen


class Moving:
    """b_i of every agent: 0 at first, then moved once a step by the mean return.

    The advantage is taken with the mean before the step.

    Args:
        decay: in [0, 1).
    """

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.means: dict[str, float] = {}

    def values(self, table: Table) -> Tensor:
        """(R,) the mean of each row's agent."""
        known = torch.tensor([self.means.get(agent, 0.0) for agent in table.agents], dtype=torch.float64)
        return known[table.agent]

    def update(self, table: Table, world: World) -> None:
        """Take in the returns of a filled table, of all processes."""
        for number, agent in enumerate(table.agents):
            mine = table.returns[table.agent == number]
            total, count = world.total(float(mine.sum()), float(len(mine)))
            if count:
                self.means[agent] = moved(self.means.get(agent, 0.0), total / count, self.decay)
