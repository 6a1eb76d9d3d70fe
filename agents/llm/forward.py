"""What the engine needs of a model, and the way to have it from any causal LM of transformers."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers import DynamicCache

from palaver.agents.llm.cache import KeyValues, LayerStates, as_library_cache

# layers whose state is not the keys and values of all earlier tokens
_FULL = {"full_attention", None}
_PADDED_BY_MASK = ("alibi", "position_bias")


class Forward(Protocol):
    """A causal LM in the two steps of generation."""

    dtype: torch.dtype

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        ...

    def prefill(self, ids: Tensor, lengths: Sequence[int]) -> tuple[Tensor, LayerStates]:
        """Right-padded prompts (U, P) to logits after each one's last token (U, V) and per-layer states (U, h, P, d)."""
        ...

    def step(self, ids: Tensor, store: KeyValues) -> Tensor:
        """One more token per row (R,): fills the store's current column, moves it on, returns logits (R, V)."""
        ...

    def refresh(self) -> None:
        """Take over the model's weights after they changed."""
        ...


class LibraryForward:
    """The model's own forward. Works for every decoder whose layers all attend to everything before them."""

    def __init__(self, model: nn.Module, dtype: torch.dtype) -> None:
        self.master = model
        self.dtype = dtype
        self.model: Any = model if dtype == torch.float32 else copy.deepcopy(model).to(dtype)
        self._store: KeyValues | None = None
        self._cache: Any = None

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        device: torch.device = next(self.model.parameters()).device
        return device

    def prefill(self, ids: Tensor, lengths: Sequence[int]) -> tuple[Tensor, LayerStates]:
        """See `Forward.prefill`: causal and unmasked, as padding on the right is never looked at."""
        cache = DynamicCache()
        last = torch.tensor([length - 1 for length in lengths], device=ids.device)
        kept, place = torch.unique(last, return_inverse=True)
        logits = self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=kept).logits
        layers = [(layer.keys, layer.values) for layer in cache.layers]
        return logits[torch.arange(len(ids), device=ids.device), place].float(), layers

    def step(self, ids: Tensor, store: KeyValues) -> Tensor:
        """See `Forward.step`."""
        if self._store is not store:
            self._store, self._cache = store, as_library_cache(store)
        output = self.model(
            input_ids=ids[:, None],
            position_ids=store.positions()[:, None],
            attention_mask=store.current_mask(),
            past_key_values=self._cache,
            use_cache=True,
            logits_to_keep=1,
        )
        store.column += 1
        logits: Tensor = output.logits[:, -1]
        return logits.float()

    def refresh(self) -> None:
        """Copy the master weights into the compute copy, if there is one."""
        if self.model is not self.master:
            copy_weights(self.master, self.model)


def copy_weights(source: nn.Module, target: nn.Module) -> None:
    """Parameters and buffers of `source` into an equal module of another dtype, in place."""
    with torch.no_grad():
        pairs = [(target.parameters(), source.parameters()), (target.buffers(), source.buffers())]
        for theirs, ours in pairs:
            for old, new in zip(theirs, ours, strict=True):
                old.copy_(new)


def unservable(model: Any) -> str:
    """Why the own engine cannot serve this model, "" if it can, judged by its config and its forward's signature."""
    config = model.config
    if getattr(config, "is_encoder_decoder", False):
        return "it is an encoder-decoder"
    if not getattr(model, "_supports_attention_backend", True) and getattr(model, "_is_stateful", False):
        return "it keeps a recurrent state"
    if getattr(model, "_is_stateful", False):
        return "it keeps a recurrent state"
    layers = getattr(config, "layer_types", None) or [None]
    if not set(layers) <= _FULL:
        return f"it has layers of the kind {sorted(set(layers) - _FULL)[0]!r}"
    if getattr(config, "layer_types", None) is None and getattr(config, "sliding_window", None):
        return "it attends through a sliding window"
    if any(getattr(config, name, False) for name in _PADDED_BY_MASK):
        return "its positions depend on the attention mask"
    known = inspect.signature(model.forward).parameters
    for name in ("position_ids", "past_key_values", "logits_to_keep"):
        if name not in known:
            return f"its forward has no argument {name!r}"
    return ""
