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
from palaver.trainers.objectives.lambda_returns import AllSum
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


def compare(batch: Batch, k: Mapping[int, Tensor], config: RunConfig, total: AllSum) -> Pairs:
    """Select the pairs of a table: joint actions of one group by team return, without ties.

    Args:
        batch: table of a rollout.
        k: row -> (T,) log pi - log ref.
        config: selection of pairs, and the discount.
        total: sums over the processes that share the rollout.
    """
    returns = tree_returns(shared_reward(batch.reward), batch.parent, batch.step_turn, config.algorithm.discount)[
        :, 0
    ].tolist()
    members: dict[str, list[int]] = defaultdict(list)
    for index, turn in enumerate(batch.steps):
        members[turn.group].append(index)
    pairs = []
    for group, steps in members.items():
        seed = stable_seed(config.seed, "pairs", group, len(steps))
        chosen = choose([returns[step] for step in steps], config.algorithm.pairs, seed)
        pairs += [(steps[better], steps[worse]) for better, worse in chosen]
    better, worse = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
    ratio = _log_ratios(batch, k)
    return Pairs(better, worse, ratio[better] - ratio[worse], total(float(len(pairs)))[0])


def weighed(
    batch: Batch, pairs: Pairs, parts: Sequence[Sequence[int]], log_ratio: Tensor, beta: float, rows: Sequence[float]
) -> Batch:
    """Replace the advantages of a table with the row weights of the pair loss.

    A policy's loss is a mean over its rows, and MADPO's one over pairs; so each weight is that of `row_weights` times
    the rows of its policy over the pairs of all processes.

    Args:
        batch: table of these pairs.
        pairs: pairs of the table.
        parts: rows of each policy.
        log_ratio: (J,) log ratio of joint steps since the margins were computed.
        beta: beta of the loss.
        rows: number of rows of each policy on all processes.
    """
    slope = dpo_slope(pairs.margin + log_ratio[pairs.better] - log_ratio[pairs.worse], beta)
    weight = row_weights(slope, pairs.better, pairs.worse, batch.member_row, batch.member_step, len(batch))
    scaled = torch.zeros_like(weight)
    for policy_rows, count in zip(parts, rows, strict=True):
        scaled[list(policy_rows)] = weight[list(policy_rows)] * count / max(1.0, pairs.total)
    return replace(batch, advantage=scaled)


def describe(pairs: Pairs, beta: float, total: AllSum) -> dict[str, float]:
    """Metrics of the pairs before the update: count, loss, accuracy, and mean margin h."""
    loss, right, margin = (
        float(values.sum()) for values in (dpo_loss(pairs.margin, beta), (pairs.margin > 0).double(), pairs.margin)
    )
    loss, right, margin = total(loss, right, margin)
    count = max(1.0, pairs.total)
    return {
        "pairs/count": pairs.total,
        "pairs/loss": loss / count,
        "pairs/accuracy": right / count,
        "pairs/margin": margin / count,
    }


def _log_ratios(batch: Batch, k: Mapping[int, Tensor]) -> Tensor:
    log_ratios = torch.zeros(len(batch), dtype=torch.float64)
    for row, log_ratio in k.items():
        log_ratios[row] = log_ratio.double().sum()
    return step_log_ratios(log_ratios, batch.member_row, batch.member_step, len(batch.steps))
