"""Log-probabilities under a distribution that top-k or top-p has truncated.

With the support S of a position, the tokens that top-k and then top-p leave of softmax(z / tau):

    log p_y = z_y / tau - log sum over j in S of exp(z_j / tau)

S is read from the logits without gradient: it is constant almost everywhere, so the gradient is that of the sampler.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from palaver.core import Sampling

CHUNK_BYTES = 64 << 20  # of the logits computed at once
_ONE = 0x3F800000  # bits of 1.0 in fp32


def widest(device: torch.device) -> torch.dtype:
    """Dtype of cumulative sums and of uniform numbers.

    It is fp64, and fp32 on Apple's GPUs, which have no other.
    """
    return torch.float32 if device.type == "mps" else torch.float64


def support(logits: Tensor, sampling: Sampling) -> Tensor:
    """(n, V) mask, True on the tokens that `sampling` may draw from logits (n, V).

    Top-k comes first, then top-p of the remaining tokens. Tokens as likely as the last one inside are inside.
    """
    scaled = logits.detach().to(widest(logits.device)) / (sampling.temperature or 1.0)
    inside = torch.ones_like(scaled, dtype=torch.bool)
    if 0 < sampling.top_k < logits.shape[1]:
        inside = scaled >= largest(scaled, sampling.top_k)[0][:, -1:]
    if sampling.top_p < 1:
        weights = scaled.masked_fill(~inside, -torch.inf).softmax(1)
        inside &= weights >= kept_floor(weights, sampling.top_p)
    return inside


def truncated_scores(
    rows: Tensor, head: Callable[[Tensor], Tensor], targets: Tensor, sampling: Sampling, *, entropy: bool
) -> tuple[Tensor, Tensor | None]:
    """Log-probabilities (n,) of targets under the truncated distribution, and entropies (n,).

    Entropies are computed if requested. A target outside of the support, by rounding or of another sampler, is added to
    it. Logits of a chunk of rows are computed again in the backward pass, so that memory is that of one chunk.

    Args:
        rows: (n, H) inputs of `head`.
        head: (c, H) to (c, V).
        targets: (n,) ids.
        sampling: temperature, top-k, top-p.
        entropy: True to compute entropies.
    """

    tempered = replace(sampling, temperature=1.0)

    def score(states: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        logits = head(states)
        logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / (sampling.temperature or 1.0)
        inside = support(logits, tempered).scatter(1, target[:, None], value=True)
        logp = logits.masked_fill(~inside, -torch.inf).log_softmax(1)
        finite = logp.masked_fill(~inside, 0.0)
        return logp.gather(1, target[:, None])[:, 0], -(finite.exp() * finite).sum(1)

    width = head(rows[:1].detach()).shape[1]
    size = max(1, CHUNK_BYTES // (width * 8))
    parts = []
    for start in range(0, len(rows), size):
        chunk = rows[start : start + size], targets[start : start + size]
        parts.append(checkpoint(score, *chunk, use_reentrant=False) if torch.is_grad_enabled() else score(*chunk))
    scores, spreads = (torch.cat(chunks) for chunks in zip(*parts, strict=True))
    return scores, spreads if entropy else None


def largest(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """`values.topk(k)` of (R, V), descending.

    Of the blocks of V, only the k with the largest maxima can hold them.
    """
    R, V = values.shape
    depth = 16 if V < 65536 else 32
    blocks = V // depth // 64 * 64  # block b holds the elements b, b + blocks, b + 2 blocks, ...
    if blocks < 4 * k:
        top = values.topk(k, -1)
        return top.values, top.indices
    maxima = values[:, : depth * blocks].view(R, depth, blocks).amax(1)
    chosen = maxima.topk(k, -1, sorted=False).indices
    offsets = torch.arange(0, depth * blocks, blocks, device=values.device)
    remainder = torch.arange(depth * blocks, V, device=values.device)
    members = torch.cat(((chosen[:, :, None] + offsets).flatten(1), remainder.expand(R, -1)), -1)
    best, index = values.gather(-1, members).topk(k, -1)
    return best, members.gather(-1, index)


def nucleus_floor(weights: Tensor, top_p: float) -> Tensor:
    """Smallest weight (R, 1) of the nucleus of weights (R, k) in descending order.

    The nucleus is the smallest leading set whose mass reaches top_p, with all weights equal to its last one: their
    order must not choose among them.
    """
    before = weights.cumsum(-1, dtype=widest(weights.device)) - weights
    size = (before < top_p).sum(-1, keepdim=True).clamp_min_(1)
    return weights.gather(-1, size - 1)


def kept_floor(probabilities: Tensor, top_p: float) -> Tensor:
    """`nucleus_floor` of probabilities (R, V) in any order."""
    if probabilities.device.type == "cpu":
        ordered = torch.from_numpy(np.sort(probabilities.numpy(), -1)).flip(-1)  # 10 times faster than torch's sort
    else:
        ordered = probabilities.sort(-1, descending=True).values
    return nucleus_floor(ordered, top_p)


def bisected_floor(probabilities: Tensor, top_p: float) -> Tensor:
    """`kept_floor` of fp32 probabilities (R, V), without a sort and without reading a result.

    The floor is the smallest t for which the tokens more likely than t have less mass than top_p. Positive floats are
    ordered as their bits, so that 30 halvings of the bits between 0 and 1 find it exactly.
    """
    low = torch.zeros((len(probabilities), 1), dtype=torch.int32, device=probabilities.device)
    high = torch.full_like(low, _ONE)
    for _ in range(_ONE.bit_length()):
        middle = (low + high) // 2
        above = probabilities > middle.view(torch.float32)
        mass = torch.where(above, probabilities, 0.0).sum(-1, keepdim=True, dtype=widest(probabilities.device))
        enough = mass >= top_p  # so the floor lies above the middle
        low, high = torch.where(enough, middle + 1, low), torch.where(enough, high, middle)
    return high.view(torch.float32)
