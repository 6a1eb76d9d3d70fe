"""Exact entropy of the softmax of a linear head, without the full table of probabilities.

For one token with hidden state h, logits z = (W h + b) / tau and p = softmax(z):

    H = -sum_j p_j log p_j            d H / d z_j = -p_j (log p_j + H)

Both passes go tile by tile over the vocabulary as in `fused_logprobs.py`: memory is that of one tile.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from palaver.agents.llm.scoring.fused_logprobs import accumulate, head_logits, products_of, tiles


def linear_entropy(hidden: Tensor, weight: Tensor, bias: Tensor | None = None, temperature: float = 1.0) -> Tensor:
    """Entropy in nats of softmax((hidden @ weight.T + bias) / temperature), differentiable.

    Args:
        hidden: (n, H).
        weight: (V, H).
        bias: (V,) or None.
        temperature: divides the logits.

    Returns:
        (n,), fp32 (fp64 for fp64 input). Under autocast the products are in its dtype, the sums in fp32.
    """
    with products_of(hidden) as compute:
        result: Tensor = _LinearEntropy.apply(  # type: ignore[no-untyped-call]
            hidden, weight, bias, temperature, compute
        )
    return result


class _LinearEntropy(torch.autograd.Function):
    """See `linear_entropy`."""

    @staticmethod
    def forward(
        ctx: Any, hidden: Tensor, weight: Tensor, bias: Tensor | None, temperature: float, compute: torch.dtype
    ) -> Tensor:
        h, w = hidden.to(compute), weight.to(compute)
        wide = torch.promote_types(hidden.dtype, torch.float32)
        total, entropy = _sums(h, w, bias, temperature, wide)
        ctx.temperature, ctx.compute = temperature, compute
        ctx.save_for_backward(hidden, weight, bias, total, entropy)
        return entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, total, entropy = ctx.saved_tensors
        needs_hidden, needs_weight, needs_bias = ctx.needs_input_grad[:3]
        h, w = hidden.to(ctx.compute), weight.to(ctx.compute)
        to_hidden = torch.zeros_like(hidden, dtype=total.dtype) if needs_hidden else None
        to_weight = torch.zeros_like(weight) if needs_weight else None
        to_bias = torch.zeros_like(bias) if needs_bias else None
        scale = -gradient / ctx.temperature
        for rows, columns in tiles(h, w):
            tile_bias = None if bias is None else bias[columns]
            logp = head_logits(h[rows], w[columns], tile_bias, ctx.temperature, None).to(total.dtype)
            logp = logp.sub_(total[rows, None])
            slope = (logp.exp() * logp.add_(entropy[rows, None]) * scale[rows, None]).to(ctx.compute)
            if to_hidden is not None:
                accumulate(to_hidden[rows], slope, w[columns])
            if to_weight is not None:
                accumulate(to_weight[columns], slope.t(), h[rows])
            if to_bias is not None:
                to_bias[columns] += slope.sum(0, dtype=to_bias.dtype)
        return None if to_hidden is None else to_hidden.to(hidden.dtype), to_weight, to_bias, None, None


def _sums(h: Tensor, w: Tensor, bias: Tensor | None, temperature: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """log sum exp (n,) of each row's logits and the entropy (n,) of their softmax, tile by tile.

    With m the largest logit so far, S = sum exp(z - m) and D = sum (z - m) exp(z - m), H = log S - D / S. When a larger
    logit comes, both sums are moved to it.
    """
    top = h.new_full((len(h),), torch.finfo(dtype).min, dtype=dtype)
    mass, lean = torch.zeros_like(top), torch.zeros_like(top)
    for rows, columns in tiles(h, w):
        tile_bias = None if bias is None else bias[columns]
        below = head_logits(h[rows], w[columns], tile_bias, temperature, None).to(dtype)
        higher = torch.maximum(top[rows], below.amax(1))
        below = below.sub_(higher[:, None])
        weight = below.exp()
        shift = top[rows] - higher
        rescale = shift.exp()
        lean[rows] = rescale * (lean[rows] + shift * mass[rows]) + below.mul_(weight).sum(1)
        mass[rows] = rescale * mass[rows] + weight.sum(1)
        top[rows] = higher
    return top + mass.log(), mass.log() - lean / mass
