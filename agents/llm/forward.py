"""What the engine needs of a model, found for any causal LM of transformers that attends to all earlier tokens."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from transformers import DynamicCache

from palaver.agents.llm.cache import KeyValues, LayerStates, as_library_cache
from palaver.agents.llm.dense_decoder import DenseDecoder
from palaver.agents.llm.split import split_head


class Forward(Protocol):
    """A causal LM in the two steps of generation."""

    dtype: torch.dtype
    model: Any

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        ...

    def prefill(self, ids: Tensor, lengths: Sequence[int]) -> tuple[Tensor, LayerStates]:
        """Right-padded prompts (U, P) to logits after each one's last token (U, V), and layer states (U, h, P, d)."""
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
        row = torch.arange(len(ids), device=ids.device)
        last = torch.tensor([length - 1 for length in lengths], device=ids.device)
        parts = split_head(self.model)
        if parts is not None:
            logits = parts.head(parts.trunk(input_ids=ids, past_key_values=cache, use_cache=True)[0][row, last])
        else:
            kept, place = torch.unique(last, return_inverse=True)
            logits = self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=kept).logits
            logits = logits[row, place]
        return logits.float(), [(layer.keys, layer.values) for layer in cache.layers]

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


def find_forward(model: Any, dtype: torch.dtype) -> tuple[Forward | None, str]:
    """The fastest forward that serves this model, or None and the reason why there is none."""
    if DenseDecoder.supports(model):
        return DenseDecoder(model, dtype), ""
    reason = unservable(model)
    if reason:
        return None, reason
    forward = LibraryForward(model, dtype)
    return (forward, "") if _agrees(forward) else (None, "its cache or positions work in another way")


def unservable(model: Any) -> str:
    """Why the own engine cannot serve this model, "" if it can, judged by its config and its forward's signature."""
    config = model.config
    if getattr(config, "is_encoder_decoder", False):
        return "it is an encoder-decoder"
    if getattr(model, "_is_stateful", False):
        return "it keeps a recurrent state"
    layers = getattr(config, "layer_types", None)
    if layers and set(layers) != {"full_attention"}:
        return f"it has layers of the kind {min(set(layers) - {'full_attention'})!r}"
    if not layers and getattr(config, "sliding_window", None):
        return "it attends through a sliding window"
    known = inspect.signature(model.forward).parameters
    missing = [name for name in ("position_ids", "past_key_values", "logits_to_keep") if name not in known]
    return f"its forward has no argument {missing[0]!r}" if missing else ""


@torch.inference_mode()
def _agrees(forward: LibraryForward) -> bool:
    """Whether two prompts of different lengths, decoded together, give the logits of each alone.

    Catches what configs do not tell: positions taken from the mask (ALiBi), caches of another layout.
    """
    device = forward.device
    training = forward.model.training
    forward.model.eval()
    texts = [[1, 2, 3, 4, 5], [3, 1]]
    padded = torch.tensor([texts[0], [3, 1, 0, 0, 0]], device=device)
    try:
        _, layers = forward.prefill(padded, [5, 2])
        store = KeyValues([5, 2], 6, device, forward.dtype)
        store.place(layers, torch.arange(2, device=device), torch.arange(2, device=device))
        found = forward.step(torch.tensor([2, 2], device=device), store)
        alone = [forward.model(input_ids=torch.tensor([[*t, 2]], device=device)).logits[:, -1] for t in texts]
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, NotImplementedError):
        return False
    finally:
        forward.model.train(training)
    expected = torch.cat(alone).float()
    tolerance = (1e-3 if forward.dtype == torch.float32 else 5e-2) * float(expected.std())
    return bool((found - expected).abs().max() <= tolerance)
