"""Preference pairs of a step's table, and the row weights of their loss (MADPO)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from palaver.core import stable_seed
from palaver.trainers.config.preferences import choose
from palaver.trainers.config.run import RunConfig
from palaver.trainers.objectives.lambda_returns import Total
from palaver.trainers.objectives.returns import shared_reward, tree_returns
from palaver.trainers.preferences.dpo import dpo_loss, dpo_slope, row_weights, step_log_ratios
from palaver.trainers.rollout.batch import Batch


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of joint steps of one table.

    Attributes:
        better: (P,) index of a joint step.
        worse: (P,) likewise.
        margin: (P,) h of each pair before the update.
        total: pairs of all processes together.
    """

    better: Tensor
    worse: Tensor
    margin: Tensor
    total: float


def compare(table: Batch, k: Mapping[int, Tensor], config: RunConfig, total: Total) -> Pairs:
    """Select the pairs of a table: joint actions of one group by team return, without ties.

    Args:
        table: table of a rollout.
        k: row -> (T,) log pi - log ref.
        config: selection of pairs, and the discount.
        total: sums over the processes that share the rollout.
    """
    returns = tree_returns(shared_reward(table.reward), table.parent, table.step_turn, config.algorithm.discount)[
        :, 0
    ].tolist()
    members: dict[str, list[int]] = defaultdict(list)
    for number, turn in enumerate(table.steps):
        members[turn.group].append(number)
    found = []
    for group, steps in members.items():
        seed = stable_seed(config.seed, "pairs", group, len(steps))
        chosen = choose([returns[step] for step in steps], config.algorithm.pairs, seed)
        found += [(steps[better], steps[worse]) for better, worse in chosen]
    better, worse = torch.tensor(found, dtype=torch.long).reshape(-1, 2).T
    ratio = _log_ratios(table, k)
    return Pairs(better, worse, ratio[better] - ratio[worse], total(float(len(found)))[0])


def weighed(
    table: Batch, pairs: Pairs, parts: Sequence[Sequence[int]], ahead: Tensor, beta: float, rows: Sequence[float]
) -> Batch:
    """Replace the advantages of a table with the row weights of the pair loss.

    A policy's loss is a mean over its rows, and MADPO's one over pairs; so each weight is that of `row_weights` times
    the rows of its policy over the pairs of all processes.

    Args:
        table: table of these pairs.
        pairs: pairs of the table.
        parts: rows of each policy.
        ahead: (J,) log ratio of joint steps since the margins were computed.
        beta: beta of the loss.
        rows: number of rows of each policy on all processes.
    """
    slope = dpo_slope(pairs.margin + ahead[pairs.better] - ahead[pairs.worse], beta)
    weight = row_weights(slope, pairs.better, pairs.worse, table.member_row, table.member_step, len(table))
    scaled = torch.zeros_like(weight)
    for own, count in zip(parts, rows, strict=True):
        scaled[list(own)] = weight[list(own)] * count / max(1.0, pairs.total)
    return replace(table, advantage=scaled)


def describe(pairs: Pairs, beta: float, total: Total) -> dict[str, float]:
    """Metrics of the pairs before the update: count, loss, accuracy, and mean margin h."""
    loss, right, margin = (
        float(part.sum()) for part in (dpo_loss(pairs.margin, beta), (pairs.margin > 0).double(), pairs.margin)
    )
    loss, right, margin = total(loss, right, margin)
    count = max(1.0, pairs.total)
    return {
        "pairs/count": pairs.total,
        "pairs/loss": loss / count,
        "pairs/accuracy": right / count,
        "pairs/margin": margin / count,
    }


def _log_ratios(table: Batch, k: Mapping[int, Tensor]) -> Tensor:
    each = torch.zeros(len(table), dtype=torch.float64)
    for row, apart in k.items():
        each[row] = apart.double().sum()
    return step_log_ratios(each, table.member_row, table.member_step, len(table.steps))
