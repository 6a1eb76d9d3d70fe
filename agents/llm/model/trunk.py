"""Trunk of a critic: a trained decoder without its head, initialised as a policy's own."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn


class Trunk(Protocol):
    """Hidden states to be trained apart from the policy they were taken from."""

    def parameters(self) -> list[nn.Parameter]:
        """Trained parameters."""
        ...

    def active(self) -> AbstractContextManager[Any]:
        """Yields the decoder that computes as this trunk; backward passes belong inside, too."""
        ...

    def state_dict(self) -> dict[str, Tensor]:
        """Trained parameters by name."""
        ...

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `state_dict`."""
        ...


class OwnTrunk:
    """See `Trunk`; a whole copy of a model's decoder."""

    def __init__(self, model: Any) -> None:
        self.module: nn.Module = copy.deepcopy(model.base_model)

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
