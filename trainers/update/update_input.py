"""Inputs of a policy update as plain data, and how they are split into micro-batches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from palaver.agents.llm.scoring.logprobs import token_batches
from palaver.trainers.config.run import OptimConfig
from palaver.trainers.objectives.losses import Loss
from palaver.trainers.rollout.batch import Batch
from palaver.trainers.update.critic import Samples
from palaver.trainers.update.off_policy import NO_CORRECTION, Correction


@dataclass(frozen=True, slots=True)
class UpdateInput:
    """Inputs of the update of one policy.

    Attributes:
        batch: batch of the rollout, with advantages.
        rows: rows of this policy on this process.
        loss: policy loss of each token.
        step: 1, 2, ...
        weight: (R,) weight of each row in the gradient; None: 1 / rows, of all processes.
        factor: (R,) multiplies the policy loss of each row and not its KL and entropy; None is 1.
        extra: row -> (T,) terms that are added to the advantage of each token.
        reference: row -> (T,) log-probs under the reference.
        trunk: samples of the critic on the policy's trunk, one for each of `rows`; it learns before optimiser steps.
        correction: of samples of another policy than the one before the update, which fills it in.
    """

    batch: Batch
    rows: Sequence[int]
    loss: Loss
    step: int
    weight: Tensor | None = None
    factor: Tensor | None = None
    extra: Mapping[int, Tensor] = field(default_factory=dict)
    reference: Mapping[int, Tensor] = field(default_factory=dict)
    trunk: Samples | None = None
    correction: Correction = NO_CORRECTION

    def own_rows(self) -> UpdateInput:
        """The same inputs with a batch of `rows` alone, which are then 0, 1, ..."""
        rows = list(self.rows)
        return replace(
            self,
            batch=self.batch.only(rows),
            rows=range(len(rows)),
            weight=None if self.weight is None else self.weight[rows],
            factor=None if self.factor is None else self.factor[rows],
            extra={place: self.extra[row] for place, row in enumerate(rows) if row in self.extra},
            reference={place: self.reference[row] for place, row in enumerate(rows) if row in self.reference},
        )


def learning_rate_schedule(config: OptimConfig, step: int, steps: int) -> float:
    """Learning rate of `step`: linear warm-up, then constant, linear or cosine decay to 0."""
    if step <= config.warmup:
        return config.lr * step / (config.warmup + 1)
    progress = (step - 1 - config.warmup) / max(1, steps - config.warmup)
    if config.schedule == "linear":
        return config.lr * (1 - progress)
    if config.schedule == "cosine":
        return config.lr * 0.5 * (1 + math.cos(math.pi * progress))
    return config.lr


def micro_batches(batch: Batch, rows: Sequence[int], max_tokens: int) -> Iterator[list[int]]:
    """Batches, long prompts first, of at most `max_tokens` padded tokens (or one row)."""
    prompts = [completion.prompt_ids for completion in batch.completions]
    ordered = sorted(rows, key=lambda row: (-len(prompts[row]), prompts[row], row))
    lengths = [len(prompts[row]) + len(batch.completions[row].token_ids) for row in ordered]
    return token_batches(ordered, lengths, max_tokens)


def token_advantages(batch: Batch, rows: Sequence[int], width: int) -> Tensor:
    """(n, width) advantages of the tokens of n rows, equal within a row without token values."""
    values = batch.advantage[:, None] if batch.token_advantage is None else batch.token_advantage
    return values[list(rows), :width].expand(-1, width)


def padded_rows(values: Sequence[Tensor], like: Tensor) -> Tensor:
    """(R, T) rows padded with zeros to the shape of `like`."""
    out = torch.zeros_like(like, requires_grad=False)
    for row, numbers in enumerate(values):
        out[row, : len(numbers)] = numbers.to(out)
    return out
