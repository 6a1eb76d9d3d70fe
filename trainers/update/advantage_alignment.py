"""Estimator of Advantage Alignment: advantages by turn, weighted by the others'."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from palaver.trainers.objectives.advantages import leave_one_out_baseline, normalize, row_returns
from palaver.trainers.objectives.alignment import aligned_advantage
from palaver.trainers.rollout.batch import Batch, joint_returns
from palaver.trainers.update.advantage_estimators import AdvantageBatch, AdvantageEstimator, KLTerms


class AlignedEstimator(AdvantageEstimator):
    """Estimator of A* from the advantages of all agents, those that are not trained included."""

    def estimate(self, batch: Batch, kl: KLTerms) -> AdvantageBatch:
        """Fill a batch; `normalize` divides A, so that beta has no unit."""
        a, estimated = self.config.algorithm, self.filled(batch, kl)
        weighed = aligned_advantage(
            self.joint_advantages(batch, self.cost(kl)), batch.parent, batch.step_turn, a.discount, a.beta
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
