"""The model that generation computes with."""

from __future__ import annotations

import copy
from functools import cached_property
from typing import Any

import torch
from torch import nn


class InferenceCopy:
    """The model itself in its own dtype, a copy in another.

    The copy is made at the first use, and `refresh` renews it.
    """

    def __init__(self, master: nn.Module, dtype: torch.dtype) -> None:
        self.master: Any = master
        self.dtype = dtype

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        device: torch.device = next(self.master.parameters()).device
        return device

    @cached_property
    def model(self) -> Any:
        """The model that computes: the master, or its copy in `dtype`."""
        held: torch.dtype = next(self.master.parameters()).dtype
        return self.master if self.dtype == held else _copy(self.master, self.dtype)

    def refresh(self) -> None:
        """Copy the trained weights and buffers into the copy, if there is one."""
        if self.model is not self.master:
            take_over(self.model, self.master)


@torch.no_grad()
def take_over(copied: nn.Module, master: nn.Module) -> None:
    """Copy weights and buffers into a model of the same make, whatever its dtype."""
    for theirs, ours in ((copied.parameters(), master.parameters()), (copied.buffers(), master.buffers())):
        for old, new in zip(theirs, ours, strict=True):
            old.copy_(new)


def _copy(model: nn.Module, dtype: torch.dtype) -> nn.Module:
    """A copy in evaluation mode in `dtype`, except for the rotary frequencies.

    bf16 has 3 digits, and angles need 7. Other tables that are not saved are added to activations (sinusoids of
    positions) and go with them.
    """
    memo: dict[int, Any] = {
        id(p): nn.Parameter(p.detach().to(dtype, copy=True), False) for p in model.parameters() if p.is_floating_point()
    }
    memo |= {
        id(buffer): buffer.to(dtype, copy=True)
        for name, buffer in model.named_buffers()
        if buffer.is_floating_point() and "inv_freq" not in name
    }
    return copy.deepcopy(model, memo).eval()
