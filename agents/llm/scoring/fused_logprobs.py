"""log pi(target) of a linear head, without the full table of log-probabilities.

For one token with hidden state h, logits z = (W h + b) / tau and p = softmax(z):

    log p_y = z_y - log sum_j exp z_j            d log p_y / d z = e_y - p

so the gradient needs p and nothing else. Up to `keep_bytes` the softmax is kept and turned into the gradient in place.
Beyond, log sum exp is built up tile by tile over the vocabulary, and the backward pass computes each tile again: memory
is that of one tile, and on a CPU a tile, its weights and their gradient stay in the cache while all rows pass by.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

KEEP_BYTES = {"cuda": 1 << 30}  # most memory of a softmax that is kept for the backward pass
KEEP_ELSEWHERE = 96 << 20
CHUNK_BYTES = 16 << 20
MIN_CHUNK = 32
TILE = 1 << 19  # logits of a tile on a CPU, 2 MiB in fp32
TILE_COLUMNS = 2048  # of the vocabulary, on a CPU; elsewhere a tile has them all, for few large operations are faster
TILE_ELSEWHERE = 1 << 24
TILE_CUDA = 1 << 27  # each tile reads the whole head and adds a gradient of its size, so few and large ones

Tile = tuple[slice, slice, Tensor]  # rows, columns, and the part of a table (n, V) there


def linear_logprobs(
    hidden: Tensor,
    weight: Tensor,
    targets: Tensor,
    bias: Tensor | None = None,
    temperature: float = 1.0,
    keep_bytes: int | None = None,
) -> Tensor:
    """log softmax((hidden @ weight.T + bias) / temperature)[targets], differentiable.

    Args:
        hidden: (n, H).
        weight: (V, H).
        targets: (n,) ids below V.
        bias: (V,) or None.
        temperature: divides the logits.
        keep_bytes: most memory for the softmax kept for the backward pass; None: `keep_bytes_on` the device.

    Returns:
        (n,), fp32 (fp64 for fp64 input). Under autocast the products are in its dtype, the softmax in fp32.
    """
    keep_bytes = keep_bytes_on(hidden.device.type) if keep_bytes is None else keep_bytes
    with products_of(hidden) as compute:
        result: Tensor = _LinearLogprobs.apply(  # type: ignore[no-untyped-call]
            hidden, weight, targets, bias, temperature, keep_bytes, compute
        )
    return result


def keep_bytes_on(device: str) -> int:
    """Most memory of a softmax that is kept for the backward pass, on this type of device."""
    return KEEP_BYTES.get(device, KEEP_ELSEWHERE)


@contextmanager
def products_of(hidden: Tensor) -> Iterator[torch.dtype]:
    """The dtype that autocast, if it is on, wants for products of `hidden`; inside, it is off."""
    device = hidden.device.type
    compute = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else hidden.dtype
    with torch.autocast(device, enabled=False):
        yield compute


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
        h, w = hidden.to(compute), weight.to(compute)
        wide = torch.promote_types(hidden.dtype, torch.float32)
        logprobs = hidden.new_empty(n, dtype=wide)
        stored_logits, total = None, None
        if keep:
            stored_logits = hidden.new_empty((n, vocabulary), dtype=compute)
            for rows in _chunks(h, vocabulary):
                logits = head_logits(h[rows], w, bias, temperature, stored_logits[rows])
                logprobs[rows] = _softmax_(logits, targets[rows])
                if logits.dtype != compute:
                    stored_logits[rows] = logits
        else:
            total, at_target = _log_sum_exp(h, w, targets, bias, temperature, wide)
            logprobs = at_target - total
        ctx.stored_logits = stored_logits
        ctx.temperature, ctx.compute = temperature, compute
        ctx.save_for_backward(hidden, weight, targets, bias, logprobs, total)
        return logprobs

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, targets, bias, logprobs, total = ctx.saved_tensors
        stored_logits = ctx.stored_logits
        ctx.stored_logits = None  # it is overwritten below; a second backward computes it again
        h, w = hidden.to(ctx.compute), weight.to(ctx.compute)
        scale = gradient / ctx.temperature
        at_target = -scale * torch.expm1(logprobs)  # 1 - p_y, which bf16 rounds to 0 where p_y is above 0.998

        def slopes() -> Iterator[Tile]:
            for rows, columns, slope in _probabilities(stored_logits, total, h, w, targets, bias, ctx.temperature):
                slope *= -scale[rows, None].to(slope.dtype)
                place = (targets[rows, None] - columns.start).clamp(0, slope.shape[1] - 1)
                inside = place + columns.start == targets[rows, None]  # a mask: to index by it is to wait for a GPU
                at_place = torch.where(inside, at_target[rows, None].to(slope.dtype), slope.gather(1, place))
                slope.scatter_(1, place, at_place)
                yield rows, columns, slope

        needs_hidden, needs_weight, _, needs_bias = ctx.needs_input_grad[:4]
        needs = (needs_hidden, needs_weight, needs_bias)
        to_hidden, to_weight, to_bias = _gradients((hidden, weight, bias), needs, (h, w), slopes(), logprobs.dtype)
        return to_hidden, to_weight, None, to_bias, None, None, None


def _gradients(
    inputs: tuple[Tensor, Tensor, Tensor],
    needs: Sequence[bool],
    factors: tuple[Tensor, Tensor],
    slopes: Iterable[Tile],
    dtype: torch.dtype,
) -> tuple[Tensor | None, Tensor | None, Tensor | None]:
    """Gradients of hidden states, weight and bias, each if it is needed.

    Args:
        inputs: hidden states, weight and bias.
        needs: which of them have a gradient.
        factors: hidden states and weight in the dtype of the products.
        slopes: gradients of the logits.
        dtype: of the sums over the vocabulary.
    """
    (hidden, weight, bias), (h, w) = inputs, factors
    to_hidden = torch.zeros_like(hidden, dtype=dtype) if needs[0] else None
    to_weight = torch.zeros_like(weight) if needs[1] else None
    to_bias = torch.zeros_like(bias) if needs[2] else None
    for rows, columns, slope in slopes:
        slope = slope.to(h.dtype)
        if to_hidden is not None:
            accumulate(to_hidden[rows], slope, w[columns])
        if to_weight is not None:
            accumulate(to_weight[columns], slope.t(), h[rows])
        if to_bias is not None:
            to_bias[columns] += slope.sum(0, dtype=to_bias.dtype)
    return None if to_hidden is None else to_hidden.to(hidden.dtype), to_weight, to_bias


def _probabilities(
    stored_logits: Tensor | None,
    total: Tensor | None,
    h: Tensor,
    w: Tensor,
    targets: Tensor,
    bias: Tensor | None,
    temperature: float,
) -> Iterator[Tile]:
    """Rows, columns and softmax of every tile of the logits.

    Each tile is computed again, or is the one that was kept.
    """
    if total is not None:
        for rows, columns, logits in tiles(h, w, bias, temperature, total.dtype):
            yield rows, columns, logits.sub_(total[rows, None]).exp_()
        return
    for rows in _chunks(h, len(w)):
        if stored_logits is None:
            slope = head_logits(h[rows], w, bias, temperature, None)
            _softmax_(slope, targets[rows])
        else:
            slope = stored_logits[rows]
        yield rows, slice(0, len(w)), slope


def _log_sum_exp(
    h: Tensor, w: Tensor, targets: Tensor, bias: Tensor | None, temperature: float, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """log sum exp (n,) of each row's logits, and the target's logit (n,), tile by tile.

    The target's logit is rounded as the logits of its tile. The running sum is rescaled when a larger logit comes.
    """
    top = h.new_full((len(h),), -torch.inf, dtype=dtype)
    mass, at_target = torch.zeros_like(top), torch.zeros_like(top)
    for rows, columns, logits in tiles(h, w, bias, temperature, dtype):
        column = targets[rows] - columns.start
        inside = column.clamp(0, logits.shape[1] - 1)
        target_logits = logits.gather(1, inside[:, None])[:, 0]
        at_target[rows] = torch.where(column == inside, target_logits, at_target[rows])
        higher = torch.maximum(top[rows], logits.amax(1))
        mass[rows] *= (top[rows] - higher).exp()
        mass[rows] += logits.sub_(higher[:, None]).exp_().sum(1)
        top[rows] = higher
    return top + mass.log_(), at_target


def tiles(
    hidden: Tensor, weight: Tensor, bias: Tensor | None, temperature: float, dtype: torch.dtype
) -> Iterator[Tile]:
    """Rows, columns and logits of every tile; all rows of some columns before the next columns."""
    n, vocabulary = len(hidden), len(weight)
    cpu = hidden.device.type == "cpu"
    wide = min(TILE_COLUMNS, vocabulary) if cpu else vocabulary
    size = {"cpu": TILE, "cuda": TILE_CUDA}.get(hidden.device.type, TILE_ELSEWHERE)
    high = max(1, size // wide)
    for column in range(0, vocabulary, wide):
        columns = slice(column, min(column + wide, vocabulary))
        tile_bias = None if bias is None else bias[columns]
        for row in range(0, n, high):
            rows = slice(row, min(row + high, n))
            yield rows, columns, head_logits(hidden[rows], weight[columns], tile_bias, temperature, None).to(dtype)


def _chunks(h: Tensor, vocabulary: int) -> Iterator[slice]:
    """Rows of `h` whose logits are computed at once where all are kept."""
    n, cuda = len(h), h.device.type == "cuda"
    size = max(MIN_CHUNK, TILE_CUDA // vocabulary if cuda else CHUNK_BYTES // (vocabulary * h.dtype.itemsize))
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def head_logits(hidden: Tensor, weight: Tensor, bias: Tensor | None, temperature: float, out: Tensor | None) -> Tensor:
    """(c, V) divided by the temperature.

    It is in the compute dtype and `out`, or in a new fp32 table (`rounds_late`).
    """
    late = rounds_late(hidden)
    logits = product(hidden, weight.t(), torch.float32) if late else torch.mm(hidden, weight.t(), out=out)
    if bias is not None:
        logits += bias
    if temperature != 1:
        logits /= temperature
    return logits


def _softmax_(logits: Tensor, targets: Tensor) -> Tensor:
    """Turn logits (c, V) into probabilities in place.

    Return the log-probabilities (c,) of the targets.
    """
    wide = torch.promote_types(logits.dtype, torch.float32)
    at_target = logits.gather(1, targets[:, None])[:, 0].to(wide)
    if logits.dtype == wide:
        top = logits.amax(1)
        torch.softmax(logits, 1, out=logits)
        return at_target - (top - logits.amax(1).log())  # log sum exp z = max z - log max p
    total = logits.to(wide).logsumexp(1)
    logits.copy_((logits.to(wide) - total[:, None]).exp_())
    return at_target - total


def accumulate(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += left @ right, summed in the dtype of the total."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total += product(left, right, total.dtype)


def rounds_late(x: Tensor) -> bool:
    """True if products of this tensor can be had in fp32: half precision on CUDA."""
    return x.device.type == "cuda" and x.dtype in (torch.bfloat16, torch.float16)


def product(left: Tensor, right: Tensor, dtype: torch.dtype) -> Tensor:
    """left @ right in a dtype.

    It is not rounded to the operands' dtype in between where the device allows that.
    """
    if dtype == torch.float32 and rounds_late(left):
        return torch.mm(left, right, out_dtype=dtype)
    return torch.mm(left, right).to(dtype)


def linear_entropy(hidden: Tensor, weight: Tensor, bias: Tensor | None = None, temperature: float = 1.0) -> Tensor:
    """Exact entropy in nats of softmax((hidden @ weight.T + bias) / temperature).

    For one token with hidden state h, logits z = (W h + b) / tau and p = softmax(z):

        H = -sum_j p_j log p_j            d H / d z_j = -p_j (log p_j + H)

    Both passes go tile by tile over the vocabulary: memory is that of one tile.

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
        total, entropy = _sums(h, w, bias, temperature, torch.promote_types(hidden.dtype, torch.float32))
        ctx.temperature, ctx.compute = temperature, compute
        ctx.save_for_backward(hidden, weight, bias, total, entropy)
        return entropy

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weight, bias, total, entropy = ctx.saved_tensors
        h, w = hidden.to(ctx.compute), weight.to(ctx.compute)
        scale = -gradient / ctx.temperature

        def slopes() -> Iterator[Tile]:
            for rows, columns, logits in tiles(h, w, bias, ctx.temperature, total.dtype):
                logp = logits.sub_(total[rows, None])
                yield rows, columns, logp.exp() * logp.add_(entropy[rows, None]) * scale[rows, None]

        needs = ctx.needs_input_grad[:3]
        return *_gradients((hidden, weight, bias), needs, (h, w), slopes(), total.dtype), None, None


def _sums(h: Tensor, w: Tensor, bias: Tensor | None, temperature: float, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """log sum exp (n,) of each row's logits and the entropy (n,) of their softmax, tile by tile.

    With m the largest logit so far, S = sum exp(z - m) and D = sum (z - m) exp(z - m), H = log S - D / S. When a larger
    logit comes, both sums are moved to it.
    """
    top = h.new_full((len(h),), torch.finfo(dtype).min, dtype=dtype)
    mass, lean = torch.zeros_like(top), torch.zeros_like(top)
    for rows, _, logits in tiles(h, w, bias, temperature, dtype):
        higher = torch.maximum(top[rows], logits.amax(1))
        below = logits.sub_(higher[:, None])
        weight = below.exp()
        shift = top[rows] - higher
        rescale = shift.exp()
        lean[rows] = rescale * (lean[rows] + shift * mass[rows]) + below.mul_(weight).sum(1)
        mass[rows] = rescale * mass[rows] + weight.sum(1)
        top[rows] = higher
    return top + mass.log(), mass.log() - lean / mass
