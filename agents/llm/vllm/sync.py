"""Transfer of trained weights to a vLLM engine of this process.

Full weights are read by vLLM's own `reload_weights`. Adapters are written as peft's files to a folder in memory, where
the machine has one, and loaded in place. The prefix cache holds keys and values of the old weights, so every transfer
ends with its reset.

Two faults of vLLM 0.32 are avoided here, both without a message. On a CPU the packed kernel of a tied head goes on with
the old weights after `reload_weights`: there the model is served untied, and the head gets the weights of the embedding
by name. Rows without an adapter in a batch with adapters are computed with one of these: there the base is an adapter
too, whose weights are 0.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Protocol

import torch
from torch import Tensor

from palaver.agents.llm.generation.requests import Adapters
from palaver.agents.llm.lora.adapter_files import write
from palaver.core import PolicyError

_MEMORY = Path("/dev/shm")
_RANKS = (8, 16, 32, 64, 128, 256, 320, 512)  # those that vLLM has room for


class Sync(Protocol):
    """Keeps an engine at the trained weights."""

    folder: str

    def settings(self) -> dict[str, Any]:
        """Keywords of `vllm.EngineArgs` for the model and its adapters."""

    def transfer(self, engine: Any) -> None:
        """Give the engine the present weights."""

    def adapter(self, index: int) -> Any:
        """The adapter of a row as vLLM takes it; `index` is that of the row's request."""


class ModelSync:
    """Full weights; see `Sync`.

    Args:
        model: a causal LM of transformers.

    Attributes:
        folder: holds the model's config, by which vLLM builds the engine.
    """

    def __init__(self, model: Any) -> None:
        self.model = model
        self._place = TemporaryDirectory(prefix="palaver-vllm-", dir=_MEMORY if os.access(_MEMORY, os.W_OK) else None)
        self.folder = self._place.name

    def settings(self) -> dict[str, Any]:
        """See `Sync.settings`; the weights are invented and replaced by the first transfer."""
        config = copy.deepcopy(self.model.config)
        config.update({"architectures": [type(self.model).__name__]})
        if self.separates_head:
            for part in (config, config.get_text_config()):
                part.update({"tie_word_embeddings": False})
        config.save_pretrained(self.folder)
        return {"model": self.folder, "load_format": "dummy"}

    def transfer(self, engine: Any) -> None:
        """See `Sync.transfer`."""
        engine.collective_rpc("reload_weights", kwargs={"weights_iterator": self.weights()})
        engine.reset_prefix_cache()

    def adapter(self, index: int) -> Any:
        """See `Sync.adapter`."""
        if index >= 0:
            raise PolicyError("this model has no adapters")

    @property
    def separates_head(self) -> bool:
        """True if the head is tied to the embedding here and served untied."""
        head, embedding = self.model.get_output_embeddings(), self.model.get_input_embeddings()
        return head is not None and head.weight is embedding.weight and head.weight.device.type == "cpu"

    def weights(self) -> Iterator[tuple[str, Tensor]]:
        """Names and values as in a stored model, without those of adapters."""
        for name, value in self.model.named_parameters():
            if ".lora_" not in name:
                yield name.replace(".base_layer.", "."), value.detach()
        if self.separates_head:
            head = self.model.get_output_embeddings()
            name = next(name for name, module in self.model.named_modules() if module is head)
            yield f"{name}.weight", head.weight.detach()


class AdapterSync(ModelSync):
    """A frozen base, once, and its adapters; see `Sync`.

    Args:
        model: the base.
        lora: its adapters.
    """

    def __init__(self, model: Any, lora: Adapters) -> None:
        super().__init__(model)
        self.lora = lora
        self._served: list[Any] = []

    def settings(self) -> dict[str, Any]:
        """See `Sync.settings`."""
        count, rank = len(self.lora.served) + 1, max(self.lora.config(key).r for key in self.lora.served)
        if rank > _RANKS[-1]:
            raise PolicyError(f"engine='vllm' serves adapters of rank {_RANKS[-1]} at most, and one has rank {rank}")
        room = min(size for size in _RANKS if size >= rank)
        return super().settings() | {
            "enable_lora": True,
            "max_loras": count,
            "max_cpu_loras": count,
            "max_lora_rank": room,
        }

    def transfer(self, engine: Any) -> None:
        """See `Sync.transfer`."""
        if not self._served:
            super().transfer(engine)
        self._served = []
        for index in range(len(self.lora.served) + 1):
            self._write(index)
            engine.add_lora(self._request(index, load_inplace=True))
            self._served.append(self._request(index, load_inplace=False))  # a row that names it loads nothing again
        engine.reset_prefix_cache()

    def adapter(self, index: int) -> Any:
        """See `Sync.adapter`; the last one, whose weights are 0, serves the base."""
        return self._served[index]

    def _write(self, index: int) -> None:
        """Write an adapter to its file."""
        base = index == len(self.lora.served)
        key = self.lora.served[0 if base else index]
        weights = self.lora.exported(key)
        write(self._file(index), self.lora.config(key), _zeros(weights) if base else weights)

    def _request(self, index: int, *, load_inplace: bool) -> Any:
        """An adapter as vLLM takes it."""
        from vllm.lora.request import LoRARequest

        folder = self._file(index)
        return LoRARequest(folder.name, index + 1, str(folder), load_inplace=load_inplace)

    def _file(self, index: int) -> Path:
        return Path(self.folder, f"adapter-{index}")


def _zeros(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: torch.zeros_like(value) for name, value in weights.items()}


def make_sync(model: Any, adapters: Adapters | None) -> Sync:
    """The transfer for a model, with adapters or without."""
    return ModelSync(model) if adapters is None else AdapterSync(model, adapters)
