"""Copies of a policy's weights, from which a reference is read while the policy changes."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from palaver.agents.llm.model.inference_copy import take_over


class FrozenCopy(Protocol):
    """A copy without gradients that changes only on request."""

    def active(self) -> AbstractContextManager[Any]:
        """Yields a model in evaluation mode that computes as the copy."""
        ...

    def take(self) -> None:
        """Copy the policy's present weights."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """The copy of what is trained, by name."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `state_dict`."""
        ...


class FrozenModel:
    """See `FrozenCopy`; a whole model."""

    def __init__(self, master: nn.Module) -> None:
        self.master = master
        self.model = copy.deepcopy(master).eval().requires_grad_(False)

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
