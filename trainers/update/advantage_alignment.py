"""Advantage Alignment: advantages of every agent by turn, weighed by the others'."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.config.run import RunConfig
from palaver.trainers.objectives.advantages import leave_one_out_baseline, normalize, row_returns
from palaver.trainers.objectives.alignment import aligned_advantage
from palaver.trainers.rollout.batch import Batch, joint_returns
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update.advantage_estimators import AdvantageBatch, AdvantageEstimator, KLTerms
from palaver.trainers.update.learner import Learner


class AlignedEstimator(AdvantageEstimator):
    """Estimator of A* from the advantages of all agents, those that are not trained included."""

    def __init__(
        self, algorithm: Algorithm, config: RunConfig, learners: Sequence[Learner], distributed: Distributed
    ) -> None:
        super().__init__(algorithm, config, learners, distributed)
        self.updates = 0

    @property
    def beta(self) -> float:
        """Present weight of the other agents' advantages."""
        a = self.config.algorithm
        left = 1 - self.updates / self.config.train.steps if a.beta_schedule == "linear" else 1.0
        return a.beta * max(0.0, left)

    def estimate(self, batch: Batch, kl: KLTerms) -> AdvantageBatch:
        """Fill a batch; `normalize` divides A, so that beta does not depend on the rewards' unit."""
        a, estimated = self.config.algorithm, self.filled(batch, kl)
        weighed = aligned_advantage(
            self.joint_advantages(batch, self.cost(kl)), batch.parent, batch.step_turn, a.discount, self.beta
        )
        rows = row_returns(weighed, batch.member_step, batch.member_row, batch.agent)
        if batch.action_row is not None:
            rows = rows[batch.action_row]
        return replace(estimated, batch=replace(estimated.batch, advantage=rows))

    def joint_advantages(self, batch: Batch, cost: Tensor | None) -> Tensor:
        """(J, N) advantage of each agent in each joint step over the other ones of its group.

        Args:
            batch: the table.
            cost: (R,) penalty of each completion, or None.
        """
        a, count = self.config.algorithm, len(batch.agents)
        returns = joint_returns(batch, self.algorithm, a, None, cost)
        numbers: dict[str, int] = {}
        step_group = torch.tensor([numbers.setdefault(turn.group, len(numbers)) for turn in batch.steps])
        group = (step_group[:, None] * count + torch.arange(count)).flatten()
        assert a.normalize != "whiten"  # refused where siblings are compared
        advantage = leave_one_out_baseline(returns.flatten(), group)
        scaled = normalize(advantage, returns.flatten(), group, a.normalize, a.std, self.distributed.all_sum)
        return scaled.reshape(returns.shape)

    def update(self, estimated: AdvantageBatch, step: int) -> dict[str, Any]:
        """Count the update, as beta may fall with it."""
        self.updates += 1
        return super().update(estimated, step)

    def state_dict(self) -> dict[str, Any]:
        """Number of updates, which a falling beta depends on."""
        return {"alignment": self.updates}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.updates = int(state.get("alignment", 0))
