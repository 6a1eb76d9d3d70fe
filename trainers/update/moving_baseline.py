"""Moving mean of each agent's returns as baseline: SPIRAL's role-conditioned advantages.

The mean moves once an episode. As in the authors' `train_spiral.py` (get, update, subtract) an episode's return is
compared with the mean before that return moved it:

    A_e = R_e - b_e        b_{e+1} = decay b_e + (1 - decay) R_e        b_1 = 0

With decay .95 the returns 1, -1, 1, 1 have the advantages 1, -1.05, 1.0025, .952375. Equation 7 of the paper read with
the mean after the update gives decay times these, for R - (decay b + (1 - decay) R) = decay (R - b).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from palaver.trainers.rollout.batch import Batch
from palaver.trainers.run.distributed import Distributed


def ema(mean: float, seen: float, decay: float) -> float:
    """b <- decay b + (1 - decay) R. Liu et al., arXiv 2506.24119, equation 7."""
    return decay * mean + (1 - decay) * seen


@dataclass(frozen=True, slots=True)
class EpisodeReturns:
    """Returns of one episode.

    Attributes:
        task: index of its task in the step.
        returns: agent -> discounted return from the first turn on, of the agents that acted.
        rows: rows of the table that belong to the episode; 0 <= row < R.
    """

    task: str
    returns: Mapping[str, float]
    rows: tuple[int, ...]


class MovingBaseline:
    """Baseline b_i of every agent: 0 at first, then updated after each of its episodes.

    A run has one environment, so that a mean per agent is one per environment and agent.

    Args:
        decay: in [0, 1).
    """

    def __init__(self, decay: float) -> None:
        self.decay = decay
        self.means: dict[str, float] = {}

    def estimate(
        self, table: Batch, reward: Tensor, discount: float, world: Distributed
    ) -> tuple[Tensor, dict[str, float]]:
        """Return the baseline of every completion and the means after the step; `means` stays.

        All completions of an agent in one episode have the mean before that episode. A completion in several episodes,
        in a tree or with crossed joint actions, has the mean before the first of them, so that its baseline contains
        none of its own returns. Episodes are ordered by task, then by branch, over all processes, so that the result
        does not depend on the number of processes.

        Args:
            table: this process's share of the batch.
            reward: (J, N) credited rewards.
            discount: gamma, per turn.
            world: the processes that share the rollout; all must call.

        Returns:
            (R,) in float64, and agent -> mean.
        """
        own = episode_returns(table, reward, discount)
        order = sorted(
            world.gather([(each, world.rank, number) for number, each in enumerate(own)]),
            key=lambda item: (len(item[0].task), item[0].task, item[2]),  # places are whole numbers: shorter is less
        )
        before, after = self.follow([each for each, _, _ in order])
        mine = {number: means for (_, rank, number), means in zip(order, before, strict=True) if rank == world.rank}
        value = torch.zeros(len(table), dtype=torch.float64)
        for number in reversed(range(len(own))):  # the first episode of a row is written last
            for row in own[number].rows:
                value[row] = mine[number].get(table.agents[int(table.agent[row])], 0.0)
        return value, after

    def follow(self, episodes: Sequence[EpisodeReturns]) -> tuple[list[dict[str, float]], dict[str, float]]:
        """Means before each episode, in their order, and those after the last."""
        means, before = dict(self.means), []
        for episode in episodes:
            before.append(dict(means))
            for agent, seen in episode.returns.items():
                means[agent] = ema(means.get(agent, 0.0), seen, self.decay)
        return before, means


def episode_returns(table: Batch, reward: Tensor, discount: float) -> list[EpisodeReturns]:
    """Episodes of a table, which are the paths to its leaves, in the order of their leaves."""
    parents = table.parent.tolist()
    said: list[list[int]] = [[] for _ in parents]
    for row, step in zip(table.member_row.tolist(), table.member_step.tolist(), strict=True):
        said[step].append(row)
    found = []
    for leaf in sorted(set(range(len(parents))) - set(parents)):
        path = [leaf]
        while (above := parents[path[-1]]) >= 0:
            path.append(above)
        rows = tuple(row for step in path for row in said[step])
        returns = (reward[path] * discount ** table.step_turn[path, None].double()).sum(dim=0).tolist()
        acted = sorted({int(table.agent[row]) for row in rows})
        task = table.steps[leaf].node.partition("/")[0]
        found.append(EpisodeReturns(task, {table.agents[n]: returns[n] for n in acted}, rows))
    return found
