"""Overlong shaping: penalty of texts near the token limit. DAPO, arXiv 2503.14476, eq. 13.

    p(n) = clip( (n - (M - c)) / c, 0, 1 )          n tokens of at most M, cache c (`algorithm.overlong`)

The reward of a text that is cut at M tokens is uninformative; the penalty grows gradually towards it. It is subtracted
from each agent's own reward alone, after credit, at the last token of its text.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from palaver.trainers.objectives.lambda_returns import AllSum, local_sum
from palaver.trainers.rollout.batch import Batch


def overlong(batch: Batch, limits: Mapping[str, int], cache: int) -> Tensor:
    """(J, N) penalty of each agent's text in each joint step, in [0, 1]; 0 where it has none.

    Args:
        batch: batch of a rollout.
        limits: agent -> M, the maximum tokens of its texts.
        cache: c, 1 or more.
    """
    penalty = torch.zeros_like(batch.reward)
    for index, step in enumerate(batch.steps):
        for agent, completion in step.completions.items():
            over = (len(completion.token_ids) - (limits[agent] - cache)) / cache
            penalty[index, batch.agents.index(agent)] = min(1.0, max(0.0, over))
    return penalty


def mean_overlong(batch: Batch, total: AllSum = local_sum) -> float:
    """Mean penalty of the table's rows.

    Args:
        batch: with its penalties.
        total: sums over the processes that share the rollout.
    """
    assert batch.overlong is not None
    of_row = torch.zeros(len(batch), dtype=batch.overlong.dtype)
    of_row[batch.member_row] = batch.overlong[batch.member_step, batch.agent[batch.member_row]]
    penalty, rows = total(float(of_row.sum()), len(batch))
    return penalty / rows
