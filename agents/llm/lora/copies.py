"""Further adapters that start as a policy's: still copies, and the trunks of critics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from palaver.agents.llm.lora.layers import Lora
from palaver.agents.llm.model.eval_mode import evaluating


class _Further:
    """An adapter that no policy answers with."""

    def __init__(self, lora: Lora, key: str) -> None:
        self.lora, self.key = lora, key

    def state_dict(self) -> dict[str, Tensor]:
        """Its weights, by name."""
        return {name: parameter.detach() for name, parameter in self.lora.named(self.key).items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """The inverse of `state_dict`."""
        self.lora.fill(self.key, state)


class FrozenAdapter(_Further):
    """See `palaver.agents.llm.model.snapshot.FrozenCopy`.

    Args:
        lora: of the base.
        key: the copy.
        source: the adapter it takes its weights from.
    """

    def __init__(self, lora: Lora, key: str, source: str) -> None:
        super().__init__(lora, key)
        self.source = source

    @contextmanager
    def active(self) -> Iterator[Any]:
        """See `FrozenCopy.active`."""
        with self.lora.active(self.key) as model, evaluating(model):
            yield model

    def take(self) -> None:
        """See `FrozenCopy.take`."""
        self.lora.fill(self.key, self.lora.named(self.source))


class AdapterTrunk(_Further):
    """See `palaver.agents.llm.model.trunk.Trunk`."""

    def parameters(self) -> list[nn.Parameter]:
        """See `Trunk.parameters`."""
        return list(self.lora.named(self.key).values())

    @contextmanager
    def active(self) -> Iterator[Any]:
        """See `Trunk.active`; afterwards the selection is as before."""
        with self.lora.active(self.key) as model:
            yield model.base_model
