"""Drawing tokens: temperature, then top-k, then top-p, then an inverse-CDF draw from a uniform number given per row.

Nothing here sorts the vocabulary unless the nucleus really spans it. Draws run over token ids in ascending order, not
over probabilities in descending order: a rounding difference between two batches then moves the draw by no more than
itself, while a swap of two nearly equal candidates in a sorted list would change the token.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from palaver.core import Sampling

FIRST_NUCLEUS = 64
_MASK64 = (1 << 64) - 1


def uniforms(seed: int, n: int) -> np.ndarray:
    """The first n uniform numbers of a row, float64 in [0, 1): Philox keyed by the row's seed."""
    return np.random.Generator(np.random.Philox(key=seed & _MASK64)).random(n)


class Sampler:
    """Draws for a batch whose rows are sorted so that rows with equal `Sampling` stand together."""

    def __init__(self, samplings: Sequence[Sampling]) -> None:
        self.groups: list[tuple[int, int, Sampling]] = []
        start = 0
        for row in range(1, len(samplings) + 1):
            if row == len(samplings) or samplings[row] != samplings[start]:
                self.groups.append((start, row, samplings[start]))
                start = row

    def draw(self, logits: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """One token per row.

        Args:
            logits: (R, V) fp32.
            uniform: (R,) float64 in [0, 1).

        Returns:
            ids (R,), their log-probabilities (R,) under softmax(logits), and (R,) under the distribution drawn from.
        """
        if len(self.groups) == 1:
            return draw(logits, uniform, self.groups[0][2])
        parts = [draw(logits[a:b], uniform[a:b], sampling) for a, b, sampling in self.groups]
        ids, logprobs, drawn = zip(*parts, strict=True)
        return torch.cat(ids), torch.cat(logprobs), torch.cat(drawn)


def draw(logits: Tensor, uniform: Tensor, sampling: Sampling) -> tuple[Tensor, Tensor, Tensor]:
    """`Sampler.draw` for rows that share one `Sampling`."""
    total = logits.logsumexp(-1)
    if sampling.temperature == 0:
        best, ids = logits.max(-1)
        return ids, best - total, torch.zeros_like(best)
    vocabulary = logits.shape[-1]
    if 0 < sampling.top_k < vocabulary:
        values, candidates = logits.topk(sampling.top_k, -1)
        weights = (values.double() / sampling.temperature).softmax(-1)
        ids, drawn = _draw_among(candidates, _nucleus(weights, sampling.top_p), uniform)
    elif sampling.top_p < 1:
        weights, candidates = _leading(logits / sampling.temperature, sampling.top_p)
        ids, drawn = _draw_among(candidates, _nucleus(weights, sampling.top_p), uniform)
    else:
        scaled = logits if sampling.temperature == 1 else logits / sampling.temperature
        tempered_total = total if sampling.temperature == 1 else scaled.logsumexp(-1)
        ids = _invert((scaled - tempered_total[:, None]).exp_().cumsum(-1, dtype=torch.float64), uniform)
        drawn = scaled.gather(-1, ids[:, None])[:, 0] - tempered_total
    return ids, logits.gather(-1, ids[:, None])[:, 0] - total, drawn


def _nucleus(weights: Tensor, top_p: float) -> Tensor:
    """Zero the weights (R, k; descending) outside the smallest leading set whose mass reaches top_p."""
    if top_p >= 1:
        return weights
    before = weights.cumsum(-1) - weights
    return weights.masked_fill(before >= top_p, 0.0)


def _leading(scaled: Tensor, top_p: float) -> tuple[Tensor, Tensor]:
    """The leading probabilities (R, k) float64, descending, and their ids, k grown until every row holds top_p."""
    total = scaled.logsumexp(-1, keepdim=True)
    vocabulary = scaled.shape[-1]
    k = min(FIRST_NUCLEUS, vocabulary)
    while True:
        values, candidates = scaled.topk(k, -1)
        weights = (values - total).double().exp()
        if k == vocabulary or bool((weights.sum(-1) >= top_p).all()):
            return weights, candidates
        k = min(k * 8, vocabulary)


def _draw_among(candidates: Tensor, weights: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Ids (R,) drawn from unnormalised weights (R, k) over candidate ids (R, k), and their log-probabilities."""
    candidates, order = candidates.sort(-1)
    weights = weights.gather(-1, order)
    cumulative = weights.cumsum(-1)
    place = _invert(cumulative, uniform)[:, None]
    drawn = (weights.gather(-1, place)[:, 0] / cumulative[:, -1]).log().float()
    return candidates.gather(-1, place)[:, 0], drawn


def _invert(cumulative: Tensor, uniform: Tensor) -> Tensor:
    """The first place (R,) whose share of the cumulative weights (R, k) float64 exceeds the uniform number."""
    # dividing makes the last share exactly 1 > u, so that a place of weight 0 is never taken
    shares = cumulative / cumulative[:, -1:]
    place = torch.searchsorted(shares, uniform[:, None], right=True)[:, 0]
    return place.clamp_max_(shares.shape[-1] - 1)  # only NaN gets past the last place; the engine reports it
