"""Overlong shaping: a penalty for texts near the limit of their tokens. DAPO, arXiv 2503.14476, equation 13.

    p(n) = clip( (n - (M - c)) / c, 0, 1 )          n tokens of at most M, cache c (`algorithm.overlong`)

A text that is cut at M tokens tells little by its reward; the penalty grows in small steps towards it. Each agent pays
for its own texts alone, after credit, at their last token.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from palaver.trainers.objectives.lambda_returns import Total, alone
from palaver.trainers.rollout.batch import Table


def overlong(table: Table, limits: Mapping[str, int], cache: int) -> Tensor:
    """(J, N) the penalty of each agent's text in each joint step, in [0, 1]; 0 where it said nothing.

    Args:
        table: of a rollout.
        limits: agent -> M, the most tokens that its texts may have.
        cache: c, 1 or more.
    """
    found = torch.zeros_like(table.reward)
    for number, step in enumerate(table.steps):
        for agent, said in step.utterances.items():
            over = (len(said.token_ids) - (limits[agent] - cache)) / cache
            found[number, table.agents.index(agent)] = min(1.0, max(0.0, over))
    return found


def mean_overlong(table: Table, total: Total = alone) -> float:
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
