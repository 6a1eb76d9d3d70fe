"""Drawing of tokens: temperature, then top-k, then top-p, then an inverse-CDF draw.

The draw takes a uniform number per row. The vocabulary is long and an operation over it is what a step costs, so: one
exponential pass serves both kinds of log-probability, the largest logits are found among the blocks that hold them, and
nothing is sorted unless the nucleus really spans more than a few hundred tokens. Draws run over token ids in ascending
order, not over probabilities in descending order: a rounding difference between two batches then moves the draw by no
more than itself, while a swap of two nearly equal candidates in a sorted list would change the token.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from palaver.agents.llm.scoring.truncation import bisected_floor, kept_floor, largest, nucleus_floor, widest
from palaver.core import Sampling

NUCLEUS_GUESSES = (64, 512)
BLOCK = 256  # tokens of the vocabulary summed before the first half of a draw
_MASK64 = (1 << 64) - 1


def uniforms(seed: int, n: int) -> np.ndarray:
    """The first n uniform numbers of a row, float64 in [0, 1): Philox keyed by the row's seed."""
    return np.random.Generator(np.random.Philox(key=seed & _MASK64)).random(n)


def uniform_table(seeds: Sequence[int], n: int, device: torch.device) -> Tensor:
    """The `uniforms` of rows with these seeds, (n, R), below 1 in the device's `widest` dtype."""
    table = torch.from_numpy(np.stack([uniforms(seed, n) for seed in seeds], 1)).to(widest(device))
    return table.clamp_max_(_below_one(table.dtype)).to(device)


@functools.cache
def _below_one(dtype: torch.dtype) -> float:
    """Largest number below 1."""
    return 1.0 - torch.finfo(dtype).eps / 2


class Sampler:
    """Sampler of tokens for a batch.

    Rows are sorted so that those with equal `Sampling` are contiguous.
    """

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
            uniform: (R,) in [0, 1), of the dtype `widest`.

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
    temperature, top_k, top_p = sampling.temperature, sampling.top_k, sampling.top_p
    probabilities = logits.softmax(-1)
    top = logits.amax(-1)
    total = top - probabilities.amax(-1).log()  # log sum exp z = max z - log max p
    if temperature == 0:
        ids = largest(logits, 1)[1][:, 0]
        return ids, top - total, torch.zeros_like(top)
    if 0 < top_k < logits.shape[-1]:
        values, candidates = largest(logits, top_k)
        weights = (values.to(widest(values.device)) / temperature).softmax(-1)
        if top_p < 1:
            weights = weights.masked_fill(weights < nucleus_floor(weights, top_p), 0.0)
        ids, drawn = _draw_among(candidates, weights, uniform)
    else:
        tempered = probabilities if temperature == 1 else (logits / temperature).softmax(-1)
        ids, drawn = _draw_nucleus(tempered, uniform, top_p) if top_p < 1 else _draw_all(tempered, uniform)
    return ids, logits.gather(-1, ids[:, None])[:, 0] - total, drawn


def _draw_nucleus(probabilities: Tensor, uniform: Tensor, top_p: float) -> tuple[Tensor, Tensor]:
    """Draw from the nucleus of (R, V).

    The draw is among a few leading tokens if they hold the nucleus, else down to its lowest token. On other devices
    than a CPU the answer to that question would have to be waited for, and could not be part of a graph.
    """
    if probabilities.device.type != "cpu":
        return _draw_all(_above(probabilities, bisected_floor(probabilities, top_p)), uniform)
    for k in NUCLEUS_GUESSES:
        if 8 * k <= probabilities.shape[-1]:
            values, candidates = largest(probabilities, k)
            weights = values.double()
            lowest = nucleus_floor(weights, top_p)
            # equals of the last candidate may lie outside, so it must not be in the nucleus
            if bool(((weights.sum(-1) >= top_p) & (weights[:, -1] < lowest[:, 0])).all()):
                return _draw_among(candidates, weights.masked_fill(weights < lowest, 0.0), uniform)
    return _draw_all(_above(probabilities, kept_floor(probabilities, top_p)), uniform)


def _above(probabilities: Tensor, floor: Tensor) -> Tensor:
    """Probabilities (R, V) below the floor (R, 1) set to 0."""
    return probabilities.masked_fill(probabilities < floor, 0.0)


def _draw_among(candidates: Tensor, weights: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Ids (R,) drawn from `widest` weights (R, k) over candidates (R, k); their log-probs."""
    candidates, order = candidates.sort(-1)
    weights = weights.gather(-1, order)
    cumulative = weights.cumsum(-1)
    index = _invert(cumulative, uniform)[:, None]
    drawn = (weights.gather(-1, index)[:, 0] / cumulative[:, -1]).log().float()
    return candidates.gather(-1, index)[:, 0], drawn


def _draw_all(weights: Tensor, uniform: Tensor) -> tuple[Tensor, Tensor]:
    """Ids (R,) drawn from unnormalised weights (R, V).

    First a block of the vocabulary is drawn, then a token of the block.
    """
    R, V = weights.shape
    blocks = -(-V // BLOCK)
    full_blocks = V // BLOCK
    sums = weights[:, : full_blocks * BLOCK].view(R, full_blocks, BLOCK).sum(-1)
    if full_blocks < blocks:
        sums = torch.cat((sums, weights[:, full_blocks * BLOCK :].sum(-1, keepdim=True)), -1)
    wide = widest(weights.device)
    cumulative = sums.to(wide).cumsum(-1)
    block = _invert(cumulative, uniform)[:, None]
    share = sums.gather(-1, block).to(wide)
    # what is left of the uniform number within the block, in [0, 1)
    within = (uniform[:, None] * cumulative[:, -1:] - cumulative.gather(-1, block) + share) / share
    members = block * BLOCK + torch.arange(BLOCK, device=weights.device)
    inside = weights.gather(-1, members.clamp_max(V - 1)).to(wide).masked_fill_(members >= V, 0.0)
    index = _invert(inside.cumsum(-1), within[:, 0].clamp_(0.0, _below_one(wide)))[:, None]
    drawn = (inside.gather(-1, index) / cumulative[:, -1:])[:, 0].log().float()
    return members.gather(-1, index)[:, 0].clamp_max_(V - 1), drawn


def _invert(cumulative: Tensor, uniform: Tensor) -> Tensor:
    """First index (R,) whose share of the cumulative weights exceeds the uniform number.

    The weights are (R, k), of the dtype `widest`.
    """
    # dividing makes the last share exactly 1 > u, so that a place of weight 0 is never taken
    shares = cumulative / cumulative[:, -1:]
    index = torch.searchsorted(shares, uniform[:, None], right=True)[:, 0]
    return index.clamp_max_(shares.shape[-1] - 1)  # only NaN gets past the last place; `Progress` reports it
