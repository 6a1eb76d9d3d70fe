"""log pi(target) of a linear head, fused: the full table of log-probabilities is never built.

For one token with hidden state h, logits z = (W h + b) / tau and p = softmax(z):

    log p_y = z_y - log sum_j exp z_j            d log p_y / d z = e_y - p

so the gradient needs p and nothing else. Up to `keep_bytes` the softmax is kept and turned into the gradient in place;
beyond, it is computed again chunk by chunk, so that memory stays bounded by one chunk.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

KEEP_BYTES = 256 << 20
CHUNK_BYTES = 16 << 20
MIN_CHUNK = 64


def linear_logprobs(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    bias: Tensor | None = None,
    temperature: float = 1.0,
    keep_bytes: int = KEEP_BYTES,
) -> Tensor:
    """log softmax((hidden @ weight.T + bias) / temperature)[targets], differentiable.

    Args:
        hidden: (n, H).
        weight: (V, H).
        targets: (n,) ids below V.
        bias: (V,) or None.
        temperature: divides the logits.
        keep_bytes: most memory for the softmax kept for the backward pass.

    Returns:
        (n,), fp32 (fp64 for fp64 input). Under autocast the products are in its dtype, the softmax in fp32.
    """
    device = hidden.device.type
    compute = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    with torch.autocast(device, enabled=False):
        result: Tensor = _LinearLogprobs.apply(  # type: ignore[no-untyped-call]
            hidden, weight, targets, bias, temperature, keep_bytes, compute
        )
    return result


class _LinearLogprobs(torch.autograd.Function):
    """See `linear_logprobs`."""

    @staticmethod
    def forward(
        ctx: Any,
        hidden: Tensor,
        weight: Tensor,
        targets: Tensor,
        bias: Tensor | None,
        temperature: float,
        keep_bytes: int,
        compute: torch.dtype,
    ) -> Tensor:
        n, vocabulary = len(hidden), len(weight)
        needs = any(tensor is not None and tensor.requires_grad for tensor in (hidden, weight, bias))
        keep = needs and n * vocabulary * compute.itemsize <= keep_bytes
        kept = hidden.new_empty((n, vocabulary), dtype=compute) if keep else None
        h, w = hidden.to(compute), weight.to(compute)
        logprobs = hidden.new_empty(n, dtype=torch.promote_types(hidden.dtype, torch.float32))
        for rows in _chunks(n, vocabulary, compute):
            out = None if kept is None else kept[rows]
            logits = _logits(h[rows], w, bias, temperature, out)
            logprobs[rows] = _softmax_(logits, targets[rows])
        ctx.kept = kept
        ctx.temperature, ctx.compute = temperature, compute
        ctx.save_for_backward(hidden, weight, targets, bias, logprobs)
        return logprobs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, targets, bias, logprobs = ctx.saved_tensors
        kept, ctx.kept = ctx.kept, None  # it is overwritten below; a second backward computes it again
        needs_hidden, needs_weight, _, needs_bias = ctx.needs_input_grad[:4]
        h, w = hidden.to(ctx.compute), weight.to(ctx.compute)
        to_hidden = torch.empty_like(hidden) if needs_hidden else None
        to_weight = torch.zeros_like(weight) if needs_weight else None
        to_bias = torch.zeros_like(bias) if needs_bias else None
        scale = gradient / ctx.temperature
        at_target = -scale * torch.expm1(logprobs)  # (1 - p_y), exact where p_y is near 1
        for rows in _chunks(len(hidden), len(weight), ctx.compute):
            if kept is None:
                slope = _logits(h[rows], w, bias, ctx.temperature, None)
                _softmax_(slope, targets[rows])
            else:
                slope = kept[rows]
            slope *= -scale[rows, None].to(slope.dtype)
            slope.scatter_(1, targets[rows, None], at_target[rows, None].to(slope.dtype))
            if to_hidden is not None:
                to_hidden[rows] = slope @ w
            if to_weight is not None:
                _accumulate(to_weight, slope, h[rows])
            if to_bias is not None:
                to_bias += slope.sum(0, dtype=to_bias.dtype)
        return to_hidden, to_weight, None, to_bias, None, None, None


def _chunks(n: int, vocabulary: int, dtype: torch.dtype) -> Iterator[slice]:
    size = max(MIN_CHUNK, CHUNK_BYTES // (vocabulary * dtype.itemsize))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def _logits(hidden: Tensor, weight: Tensor, bias: Tensor | None, temperature: float, out: Tensor | None) -> Tensor:
    """(c, V) in the compute dtype, divided by the temperature."""
    logits = torch.mm(hidden, weight.t(), out=out)
    if bias is not None:
        logits += bias
    if temperature != 1:
        logits /= temperature
    return logits


def _softmax_(logits: Tensor, targets: Tensor) -> Tensor:
    """Turn logits (c, V) into probabilities in place; return the log-probabilities (c,) of the targets."""
    wide = torch.promote_types(logits.dtype, torch.float32)
    at_target = logits.gather(1, targets[:, None])[:, 0].to(wide)
    if logits.dtype == wide:
        top = logits.amax(1)
        torch.softmax(logits, 1, out=logits)
        return at_target - (top - logits.amax(1).log())  # log sum exp z = max z - log max p
    total = logits.to(wide).logsumexp(1)
    logits.copy_((logits.to(wide) - total[:, None]).exp_())
    return at_target - total


def _accumulate(total: Tensor, slope: Tensor, hidden: Tensor) -> None:
    """total (V, H) += slope.T @ hidden, summed in the dtype of the total."""
    if total.dtype == slope.dtype:
        total.addmm_(slope.t(), hidden)
    else:
        total += slope.t() @ hidden
