"""Overlong shaping: penalty of texts near the token limit. DAPO, arXiv 2503.14476, eq. 13.

    p(n) = clip( (n - (M - c)) / c, 0, 1 )          n tokens of at most M, cache c (`algorithm.overlong`)

The reward of a text that is cut at M tokens is uninformative; the penalty grows gradually towards it. It is subtracted
from each agent's own reward alone, after credit, at the last token of its text.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from palaver.trainers.objectives.lambda_returns import Total, alone
from palaver.trainers.rollout.batch import Batch


def overlong(table: Batch, limits: Mapping[str, int], cache: int) -> Tensor:
    """(J, N) penalty of each agent's text in each joint step, in [0, 1]; 0 where it has none.

    Args:
        table: batch of a rollout.
        limits: agent -> M, the maximum tokens of its texts.
        cache: c, 1 or more.
    """
    found = torch.zeros_like(table.reward)
    for number, step in enumerate(table.steps):
        for agent, said in step.completions.items():
            over = (len(said.token_ids) - (limits[agent] - cache)) / cache
            found[number, table.agents.index(agent)] = min(1.0, max(0.0, over))
    return found


def mean_overlong(table: Batch, total: Total = alone) -> float:
    """Mean penalty of the table's rows.

    Args:
        table: with its penalties.
        total: sums over the processes that share the rollout.
    """
    assert table.overlong is not None
    of_row = torch.zeros(len(table), dtype=table.overlong.dtype)
    of_row[table.member_row] = table.overlong[table.member_step, table.agent[table.member_row]]
    paid, rows = total(float(of_row.sum()), len(table))
    return paid / rows
