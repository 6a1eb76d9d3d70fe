"""Moving mean of each agent's returns as baseline: SPIRAL's role-conditioned advantages.

The mean moves once an episode. As in the authors' `train_spiral.py` (get, update, subtract) an episode's return is
compared with the mean before that return moved it:

    A_e = R_e - b_e        b_{e+1} = decay b_e + (1 - decay) R_e        b_1 = 0

With decay .95 the returns 1, -1, 1, 1 have the advantages 1, -1.05, 1.0025, .952375. Equation 7 of the paper read with
the mean after the update gives decay times these, for R - (decay b + (1 - decay) R) = decay (R - b).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from palaver.trainers.rollout.batch import Batch, credited_rewards
from palaver.trainers.update.advantage_estimators import AdvantageBatch, AdvantageEstimator, KLTerms


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


class MovingBaseline(AdvantageEstimator):
    """Estimator of returns less a moving mean b_i of every agent.

    It is 0 at first, and updated after each of the agent's episodes.
    A run has one environment, so that a mean per agent is one per environment and agent.
    """

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.means: dict[str, float] = {}

    def estimate(self, batch: Batch, kl: KLTerms) -> AdvantageBatch:
        """Fill a batch; the values of its rows are their baselines. The means move in `update`.

        All completions of an agent in one episode have the mean before that episode. A completion in several episodes,
        in a tree or with crossed joint actions, has the mean before the first of them, so that its baseline contains
        none of its own returns. Episodes are ordered by task, then by branch, over all processes, so that the result
        does not depend on the number of processes.
        """
        distributed, reward = self.distributed, credited_rewards(batch, self.algorithm, self.cost(kl))
        episodes = episode_returns(batch, reward, self.config.algorithm.discount)
        order = sorted(
            distributed.gather([(episode, distributed.rank, index) for index, episode in enumerate(episodes)]),
            key=lambda item: (len(item[0].task), item[0].task, item[2]),  # places are whole numbers: shorter is less
        )
        before, after = self.follow([episode for episode, _, _ in order])
        mine = {index: means for (_, rank, index), means in zip(order, before, strict=True) if rank == distributed.rank}
        value = torch.zeros(len(batch), dtype=torch.float64)
        for index in reversed(range(len(episodes))):  # the first episode of a row is written last
            for row in episodes[index].rows:
                value[row] = mine[index].get(batch.agents[int(batch.agent[row])], 0.0)
        return replace(self.filled(batch, kl, value), means=after)

    def update(self, estimated: AdvantageBatch, step: int) -> dict[str, Any]:
        """Move the means to those after the batch."""
        self.means = dict(estimated.means)
        return super().update(estimated, step)

    def state_dict(self) -> dict[str, Any]:
        """State of the means."""
        return {"moving": self.means}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.means = dict(state["moving"])

    def follow(self, episodes: Sequence[EpisodeReturns]) -> tuple[list[dict[str, float]], dict[str, float]]:
        """Means before each episode, in their order, and those after the last."""
        means, before = dict(self.means), []
        for episode in episodes:
            before.append(dict(means))
            for agent, seen in episode.returns.items():
                means[agent] = ema(means.get(agent, 0.0), seen, self.config.algorithm.decay)
        return before, means


def episode_returns(batch: Batch, reward: Tensor, discount: float) -> list[EpisodeReturns]:
    """Episodes of a table, which are the paths to its leaves, in the order of their leaves."""
    parents = batch.parent.tolist()
    rows_of_step: list[list[int]] = [[] for _ in parents]
    for row, step in zip(batch.member_row.tolist(), batch.member_step.tolist(), strict=True):
        rows_of_step[step].append(row)
    episodes = []
    for leaf in sorted(set(range(len(parents))) - set(parents)):
        path = [leaf]
        while (above := parents[path[-1]]) >= 0:
            path.append(above)
        rows = tuple(row for step in path for row in rows_of_step[step])
        returns = (reward[path] * discount ** batch.step_turn[path, None].double()).sum(dim=0).tolist()
        acted = sorted({int(batch.agent[row]) for row in rows})
        task = batch.steps[leaf].node.partition("/")[0]
        episodes.append(EpisodeReturns(task, {batch.agents[n]: returns[n] for n in acted}, rows))
    return episodes
