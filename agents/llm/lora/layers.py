"""Low-rank adapters in the linear layers of one model, through peft.

A layer computes W x + (alpha / r) B A x with A and B of the adapter that is chosen (LoRA, arXiv 2106.09685). W is
frozen, in whatever dtype the model is held in; A and B are fp32. B starts at 0: a new adapter changes nothing.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model_state_dict, set_peft_model_state_dict
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn

from palaver.agents.llm.model.inference_copy import evaluating
from palaver.agents.llm.model.load import quiet
from palaver.agents.llm.scoring.split_head import close, holds, some_ids
from palaver.core import stable_seed

BASE = "__base__"  # peft's word for a row that no adapter changes


class Lora:
    """See `palaver.agents.llm.generation.requests.Adapters`.

    Adapters have keys of our own, since peft cannot take every agent's name.

    Args:
        model: a causal LM of transformers; its weights are frozen, its linear layers wrapped in place.
    """

    def __init__(self, model: Any) -> None:
        self.model = model.eval().requires_grad_(False)
        self.served: list[str] = []
        self._peft: Any = None
        self._layers: list[Any] = []
        self._weights: dict[str, dict[str, nn.Parameter]] = {}
        self._trained: set[str] = set()
        self._chosen: str | None = None
        self._count = 0

    def add(self, config: LoraConfig, *, trained: bool, seed: object = 0) -> str:
        """One more adapter; the key it goes by. Its weights depend on the shape and the seed alone."""
        key = f"adapter{self._count}"
        self._count += 1
        # peft uses names that transformers has deprecated, and remarks on every transposed layer (GPT-2)
        with torch.random.fork_rng(devices=[]), quiet(), warnings.catch_warnings():
            torch.default_generator.manual_seed(stable_seed("adapter", seed))
            warnings.simplefilter("ignore")
            if self._peft is None:
                self._peft = PeftModel(self.model, copy.deepcopy(config), key)
            else:
                self._peft.add_adapter(key, copy.deepcopy(config))
        self._layers = [module for module in self.model.modules() if isinstance(module, LoraLayer)]
        for layer in self._layers:
            layer.eval()  # dropout would score other texts than were sampled
        named = self.model.named_parameters()
        self._weights[key] = {name.replace(f".{key}", ""): p for name, p in named if f".{key}." in name}
        if trained:
            self._trained.add(key)
        self._choose(self._chosen)
        return key

    def copy(self, key: str, *, trained: bool) -> str:
        """One more adapter, with the shape and the weights of another; its key."""
        new_key = self.add(self.config(key), trained=trained)
        self.fill(new_key, self.named(key))
        return new_key

    def remove(self, key: str) -> None:
        """Take an adapter away."""
        self._trained.discard(key)
        del self._weights[key]
        self._peft.delete_adapter(key)
        self._choose(None if self._chosen == key else self._chosen)

    @contextmanager
    def active(self, key: str | None) -> Iterator[Any]:
        """The model, computing with this adapter or with none.

        The adapter that was chosen before is restored afterwards.
        """
        before = self._chosen
        if key != before:
            self._choose(key)
        try:
            yield self.model
        finally:
            if self._chosen != before:
                self._choose(before)

    def only(self, adapter: int) -> Any:
        """See `Adapters.only`."""
        return self.active(None if adapter < 0 else self.served[adapter])

    @contextmanager
    def mixed(self, adapters: Sequence[int]) -> Iterator[None]:
        """See `Adapters.mixed`.

        Works as peft's own `adapter_names`, but these hooks are also removed after an error.
        """
        names = [BASE if adapter < 0 else self.served[adapter] for adapter in adapters]

        def name_rows(_: nn.Module, inputs: Any, keywords: dict[str, Any]) -> Any:
            return inputs, keywords | {"adapter_names": names}

        handles = [layer.register_forward_pre_hook(name_rows, with_kwargs=True) for layer in self._layers]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def mixes(self) -> bool:
        """See `Adapters.mixes`; it is found by a trial.

        A layer that is not given whole rows (experts) cannot tell them apart.
        """
        return holds(self.model, self._mixes)

    def config(self, key: str) -> LoraConfig:
        """The shape of an adapter."""
        return self._peft.peft_config[key]

    def named(self, key: str) -> dict[str, nn.Parameter]:
        """The weights of an adapter, by names without its key."""
        return self._weights[key]

    @torch.no_grad()
    def fill(self, key: str, state: Mapping[str, Tensor]) -> None:
        """Copy weights by the names of `named`."""
        for name, parameter in self.named(key).items():
            parameter.copy_(state[name])

    def exported(self, key: str) -> dict[str, Tensor]:
        """The weights of an adapter as peft writes them to a file."""
        weights = get_peft_model_state_dict(self._peft, adapter_name=key, save_embedding_layers=False)
        return {name: value.detach().cpu().contiguous() for name, value in weights.items()}

    def imported(self, key: str, weights: Mapping[str, Tensor]) -> str:
        """Take over weights that peft wrote; what does not fit, "" if all does.

        Raises:
            RuntimeError: a weight has another shape.
        """
        result = set_peft_model_state_dict(self._peft, dict(weights), adapter_name=key)
        missing = [name for name in result.missing_keys if f".{key}." in name]
        if missing or result.unexpected_keys:
            return (
                f"it lacks {missing[0]!r}" if missing else f"it has {result.unexpected_keys[0]!r}, which fits nowhere"
            )
        return ""

    def _choose(self, key: str | None) -> None:
        for layer in self._layers:
            layer.set_adapter([] if key is None else [key], inference_mode=True)
        self._chosen = key
        # peft takes the gradient from what is not chosen: a backward pass after another choice would add nothing
        for trained in self._trained:
            for parameter in self._weights[trained].values():
                parameter.requires_grad_(True)

    def _mixes(self) -> bool:
        vocabulary = self.model.config.get_text_config().vocab_size
        ids = torch.tensor([some_ids(vocabulary)] * 2, device=next(self.model.parameters()).device)
        with self.mixed([0, -1]):
            mixed = self.model(input_ids=ids, use_cache=False).logits
        alone = []
        for adapter in (0, -1):
            with self.only(adapter):
                alone.append(self.model(input_ids=ids[:1], use_cache=False).logits)
        return close(mixed, torch.cat(alone))


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
    """See `palaver.agents.llm.model.inference_copy.FrozenCopy`.

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
    """See `palaver.agents.llm.model.inference_copy.Trunk`."""

    def parameters(self) -> list[nn.Parameter]:
        """See `Trunk.parameters`."""
        return list(self.lora.named(self.key).values())

    @contextmanager
    def active(self) -> Iterator[Any]:
        """See `Trunk.active`; afterwards the selection is as before."""
        with self.lora.active(self.key) as model:
            yield model.base_model
