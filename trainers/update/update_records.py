"""Records of a policy update, as plain data; micro-batches of its rows.

Samples may be of another policy than the one that an update starts from. Decoupled PPO (Hilton et al., arXiv
2110.00641; AReaL, arXiv 2505.24298) knows three policies: mu that sampled, pi_0 before the update, which bounds how far
it goes, and pi now. The loss is that of pi / pi_0, times pi_0 / mu.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from palaver.agents.llm.scoring.logprobs import token_batches
from palaver.trainers.config.run import AlgorithmConfig
from palaver.trainers.objectives.lambda_returns import AllSum
from palaver.trainers.objectives.losses import Loss, log_ratio, truncated
from palaver.trainers.objectives.off_policy import within, without_masked_rows
from palaver.trainers.rollout.batch import Batch
from palaver.trainers.update.critic import Samples


@dataclass(frozen=True, slots=True)
class Correction:
    """Correction of an update; each mapping is empty where it corrects nothing.

    Attributes:
        old: row -> (T,) log-probs that the ratio is measured from, in place of those at sampling.
        weight: row -> (T,) weight of the policy loss.
        kept: row -> (T,) false at tokens that are not trained on.
        sums: over the tokens that are left, their weights (also where the loss has none) and their number; and the
            number of all tokens.
        drift: largest |log-prob before the update - log-prob at sampling|, of masked tokens too.
    """

    old: Mapping[int, Tensor] = field(default_factory=dict)
    weight: Mapping[int, Tensor] = field(default_factory=dict)
    kept: Mapping[int, Tensor] = field(default_factory=dict)
    sums: tuple[float, float, float] = (0.0, 0.0, 0.0)
    drift: float = 0.0

    def masks(self, row: int) -> bool:
        """Return whether no token of a row is left."""
        return row in self.kept and not bool(self.kept[row].any())

    def length(self, row: int, tokens: int) -> int:
        """Number of a row's tokens that are left, of as many."""
        return int(self.kept[row].sum()) if row in self.kept else tokens


NO_CORRECTION = Correction()


def correction(before: Mapping[int, Tensor], sampled: Mapping[int, Tensor], config: AlgorithmConfig) -> Correction:
    """Correct by `algorithm.old`, `truncate`, `mask` and `correction`.

    Args:
        before: row -> (T,) log-probs before the update, in host memory.
        sampled: row -> (T,) log-probs at sampling.
        config: of the algorithm.
    """
    level, drift = config.correction or config.ratio, 0.0
    rho: dict[int, Tensor] = {}
    kept: dict[int, Tensor] = {}
    for row, logp in before.items():
        every, behaviour = torch.ones_like(logp, dtype=torch.bool), sampled[row].to(logp)
        log_rho = log_ratio(logp[None], behaviour[None], every[None], level)[0]
        rho[row] = log_rho.exp() if config.truncate is None else truncated(log_rho, config.truncate)
        kept[row] = every if config.mask is None else within(log_rho, config.mask)
        drift = max([drift, *(logp - behaviour).abs().tolist()])
    weights, left = (sum(float(values[kept[row]].sum()) for row, values in each.items()) for each in (rho, kept))
    return Correction(
        before if config.old == "learner" else {},
        rho if config.old == "learner" and config.truncate is not None else {},
        kept if config.mask is not None else {},
        (weights, left, float(sum(map(len, before.values())))),
        drift,
    )


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


@dataclass(frozen=True, slots=True)
class UpdateStats:
    """Statistics of one policy update.

    Attributes:
        loss: the weighted sum of token losses of the last optimiser step, KL and entropy included.
        grad_norm: of the last optimiser step, before clipping.
        kl: mean over trained tokens of the estimate of `kl.estimator`, 0 without a reference.
        drift: largest |log-prob now - log-prob at sampling| over this process's tokens before any step; rounding only
            on fresh data.
        moved: approximate KL between the policy that the ratio is measured from and the one after the last pass but
            one; 0 with one pass over fresh samples.
        passes: over the rows.
        rows: completions with a gradient.
        lr: learning rate of this step.
        entropy: mean over trained tokens of the entropy of the next token in nats, 0 if `algorithm.entropy` is 0.
        correction: mean over trained tokens of the importance weight before the update, truncated; None if there is
            none.
        masked: share of tokens outside of `algorithm.mask`; None without a mask.
    """

    loss: float
    grad_norm: float
    kl: float
    drift: float
    moved: float
    passes: int
    rows: int
    lr: float
    entropy: float = 0.0
    correction: float | None = None
    masked: float | None = None


@dataclass(frozen=True, slots=True)
class UpdateSums:
    """Sums over micro-batches, of all but the drift, which is their maximum."""

    loss: float = 0.0
    kl: float = 0.0
    moved: float = 0.0
    tokens: float = 0.0
    drift: float = 0.0
    entropy: float = 0.0


@dataclass(frozen=True, slots=True)
class MicroBatchSums:
    """Sums over one micro-batch, on the device of its policy.

    Attributes:
        rows: of the batch.
        tokens: number of tokens that are trained on.
        sums: (5,) loss, KL, mean approximate KL to the policy that the ratio is measured from, drift, entropy.
    """

    rows: Sequence[int]
    tokens: int
    sums: Tensor


def share_out_masked(work: UpdateInput, weights: Sequence[float], total: AllSum) -> list[float]:
    """Weights of rows, those of masked rows shared out among the others of all processes."""
    masked = [work.correction.masks(row) for row in work.rows]
    left = sum(weight for weight, gone in zip(weights, masked, strict=True) if not gone)
    return without_masked_rows(weights, masked, *total(sum(weights), left))


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
    """(R, T) rows padded with zeros to the shape of `like`, moved to its device together."""
    out = torch.zeros(like.shape, dtype=like.dtype, device=values[0].device if values else like.device)
    for row, numbers in enumerate(values):
        out[row, : len(numbers)] = numbers.to(out)
    return out.to(like.device)


def token_places(work: UpdateInput, rows: Sequence[int], like: Tensor) -> Tensor:
    """(n,) places of the tokens that are trained on in the flattened (R, T) of `like`.

    On its device. They are of lengths in host memory: a mask on a GPU would be read to count them.
    """
    kept = np.zeros(like.shape, dtype=bool)
    for place, row in enumerate(rows):
        length, corrected = len(work.batch.completions[row].token_ids), work.correction.kept
        kept[place, :length] = corrected[row].numpy() if row in corrected else True
    return torch.from_numpy(np.flatnonzero(kept)).to(like.device)
