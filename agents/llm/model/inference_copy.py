"""Copies of a model: for generation, as a reference, as the trunk of a critic."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Any, Protocol

import torch
from torch import Tensor, nn


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
        return torch.device(next(self.master.parameters()).device)

    @cached_property
    def model(self) -> Any:
        """The model that computes: the master, or its copy in `dtype`."""
        return self.master if self.dtype == next(self.master.parameters()).dtype else _copy(self.master, self.dtype)

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


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Context of evaluation mode.

    Afterwards each module is in its previous mode again; `model.train` would give all the same mode.
    """
    before = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in before:
            module.training = training


class FrozenCopy(Protocol):
    """A copy without gradients that changes only on request."""

    def active(self) -> AbstractContextManager[Any]:
        """Yields a model in evaluation mode that computes as the copy."""

    def take(self) -> None:
        """Copy the policy's present weights."""

    def state_dict(self) -> dict[str, Tensor]:
        """The copy of what is trained, by name."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `state_dict`."""


class FrozenModel:
    """See `FrozenCopy`; a whole model."""

    def __init__(self, master: nn.Module, device: torch.device | None = None) -> None:
        self.master = master
        self.model = copy.deepcopy(master).eval().requires_grad_(False).to(device)

    @contextmanager
    def active(self) -> Iterator[nn.Module]:
        """See `FrozenCopy.active`."""
        yield self.model

    def take(self) -> None:
        """See `FrozenCopy.take`."""
        take_over(self.model, self.master)

    def state_dict(self) -> dict[str, Tensor]:
        """See `FrozenCopy.state_dict`; tied weights once."""
        return {name: parameter.detach() for name, parameter in self.model.named_parameters()}

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """See `FrozenCopy.load_state_dict`."""
        for name, parameter in self.model.named_parameters():
            parameter.copy_(state[name])


class Trunk(Protocol):
    """Hidden states to be trained apart from the policy they were taken from."""

    def parameters(self) -> list[nn.Parameter]:
        """Trained parameters."""

    def active(self) -> AbstractContextManager[Any]:
        """Yields the decoder that computes as this trunk; backward passes belong inside, too."""

    def state_dict(self) -> dict[str, Tensor]:
        """Trained parameters by name."""

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `state_dict`."""


class OwnTrunk:
    """See `Trunk`; a whole copy of a model's decoder."""

    def __init__(self, model: Any, device: torch.device) -> None:
        self.module: nn.Module = copy.deepcopy(model.base_model).to(device)

    def parameters(self) -> list[nn.Parameter]:
        """See `Trunk.parameters`."""
        return list(self.module.parameters())

    @contextmanager
    def active(self) -> Iterator[nn.Module]:
        """See `Trunk.active`."""
        yield self.module

    def state_dict(self) -> dict[str, Tensor]:
        """See `Trunk.state_dict`."""
        return dict(self.module.state_dict())

    @torch.no_grad()
    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """See `Trunk.load_state_dict`."""
        self.module.load_state_dict(state)
