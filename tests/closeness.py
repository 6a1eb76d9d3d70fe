"""Comparisons of fp32 results that hold on any CPU.

Instruction sets, thread counts and batch shapes change the order of sums, and a sum in fp32 errs by some 1e-7 of its
largest terms, however small what is left of them. Errors are therefore measured against the norm of a whole tensor; a
bound for each element would depend on which elements happen to cancel.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch

# A gradient that cancels exactly, as that of a bias under a softmax, is rounding alone: for its bound, its norm counts
# as this share of the norm of all gradients together.
LEAST_SHARE = 1e-2


def assert_gradients_close(
    found: Mapping[str, torch.Tensor] | Iterable[torch.Tensor],
    expected: Mapping[str, torch.Tensor] | Iterable[torch.Tensor],
    rel: float = 1e-4,
) -> None:
    """Compare gradients by name or in order: each differs by at most `rel` of its expected norm."""
    one, other = _named(found), _named(expected)
    assert one.keys() == other.keys()
    least = LEAST_SHARE * torch.stack([value.norm() for value in other.values()]).norm()
    for name, value in other.items():
        assert one[name].shape == value.shape, name
        error, bound = (one[name] - value).norm(), rel * torch.maximum(value.norm(), least)
        assert error <= bound, f"{name}: off by {error:.3g}, which is above {bound:.3g}"


def assert_values_close(found: Any, expected: Any, rel: float = 1e-5) -> None:
    """Compare log-probabilities, logits, values or weights: the largest error is at most `rel` of the largest expected.

    What is expected counts as 1 at least: the log-probability of a likely token is small, the logits it comes from not.
    """
    one, other = (torch.as_tensor(each).detach().double() for each in (found, expected))
    assert one.shape == other.shape
    if other.numel():
        error, bound = (one - other).abs().max(), rel * other.abs().max().clamp(min=1.0)
        assert error <= bound, f"off by {error:.3g}, which is above {bound:.3g}"


def parted_rows(rows: int) -> int:
    """How many of as many sampled rows may part: measured are 2 of 2,880 rows of 25 tokens, 1 in 50 is allowed.

    A batch's shape changes how sums round, and with them the token of a draw that falls on the border of two, or the
    nucleus where a token stands on its edge.
    """
    return max(1, rows // 50)


def assert_same_tokens(found: Sequence[Sequence[int]], expected: Sequence[Sequence[int]]) -> None:
    """Compare the tokens of rows that were drawn in batches of other shapes, or by weights that were merged."""
    parted = [row for row, (one, other) in enumerate(zip(found, expected, strict=True)) if tuple(one) != tuple(other)]
    assert len(parted) <= parted_rows(len(expected)), f"rows {parted} of {len(expected)} are others"


def _named(values: Mapping[str, torch.Tensor] | Iterable[torch.Tensor]) -> dict[str, torch.Tensor]:
    pairs = values.items() if isinstance(values, Mapping) else enumerate(values)
    return {str(name): value.detach().double() for name, value in pairs}
