"""Forward passes of the engine, for any causal LM that attends to all earlier tokens."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import DynamicCache

from palaver.agents.llm.generation.dense_decoder import DenseDecoder
from palaver.agents.llm.generation.kv_cache import KeyValues, LayerStates, as_library_cache
from palaver.agents.llm.generation.lora_decoder import AdapterDecoder
from palaver.agents.llm.generation.multi_lora import Adapters
from palaver.agents.llm.model.inference_copy import InferenceCopy
from palaver.agents.llm.scoring.split_head import SplitModel, holds, narrowed, split_head


class Forward(Protocol):
    """A causal LM in the two steps of generation."""

    dtype: torch.dtype
    model: Any

    @property
    def device(self) -> torch.device:
        """Device of the computation."""
        ...

    def prefill(self, ids: Tensor, lengths: Sequence[int], adapters: Sequence[int] = ()) -> tuple[Tensor, LayerStates]:
        """Run right-padded prompts (U, P); return logits (U, V) and layer states (U, h, P, d).

        Logits are those after each prompt's last token. `adapters` (U) is the adapter index of each, -1 or nothing for
        none; a model without adapters ignores it.
        """
        ...

    def step(self, ids: Tensor, store: KeyValues) -> Tensor:
        """Add one token per row (R,); return logits (R, V).

        Fills the store's current column and moves it on.
        """
        ...

    def refresh(self) -> None:
        """Take over the model's weights after they changed."""
        ...


class LibraryForward:
    """The model's own forward.

    Works for every decoder whose layers all attend to everything before them.
    """

    def __init__(self, inference_copy: InferenceCopy, adapters: Adapters | None = None) -> None:
        self.inference_copy = inference_copy
        self.model, self.dtype = inference_copy.model, inference_copy.dtype
        self.adapters = adapters

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return self.inference_copy.device

    def prefill(self, ids: Tensor, lengths: Sequence[int], adapters: Sequence[int] = ()) -> tuple[Tensor, LayerStates]:
        """See `Forward.prefill`: causal and unmasked, as padding on the right is never looked at."""
        parts = split_head(self.model)  # before rows are mixed: it tries the model on rows of its own
        with self._mixed(adapters or [-1] * len(ids)):
            return self._prefill(parts, ids, lengths)

    def _prefill(self, parts: SplitModel | None, ids: Tensor, lengths: Sequence[int]) -> tuple[Tensor, LayerStates]:
        cache = DynamicCache()
        row = torch.arange(len(ids), device=ids.device)
        last = torch.tensor([length - 1 for length in lengths], device=ids.device)
        if parts is not None:
            logits = parts.head(parts.trunk(input_ids=ids, past_key_values=cache, use_cache=True)[0][row, last])
        else:
            columns, index = torch.unique(last, return_inverse=True)
            logits = self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=columns).logits
            logits = logits[row, index]
        return logits.float(), [(layer.keys, layer.values) for layer in cache.layers]

    def step(self, ids: Tensor, store: KeyValues) -> Tensor:
        """See `Forward.step`."""
        with self._mixed(store.adapters.tolist() if self.adapters else ()):
            output = self.model(
                input_ids=ids[:, None],
                position_ids=store.positions()[:, None],
                attention_mask=store.current_mask(),
                past_key_values=as_library_cache(store),
                use_cache=True,
                logits_to_keep=1,
            )
        store.column += 1
        logits: Tensor = output.logits[:, -1]
        return logits.float()

    def refresh(self) -> None:
        """See `InferenceCopy.refresh`."""
        self.inference_copy.refresh()

    def _mixed(self, adapters: Sequence[int]) -> AbstractContextManager[None]:
        return self.adapters.mixed(adapters) if self.adapters else nullcontext()


def find_forward(inference_copy: InferenceCopy, adapters: Adapters | None = None) -> tuple[Forward | None, str]:
    """The fastest forward for this model and its adapters, or None and the reason."""
    if adapters is not None and DenseDecoder.supports(inference_copy.master, adapted=True):
        return AdapterDecoder(inference_copy.master, inference_copy.dtype, adapters.served), ""
    if DenseDecoder.supports(inference_copy.master):
        return DenseDecoder(inference_copy.master, inference_copy.dtype), ""
    reason = unservable(inference_copy.master)
    if reason:
        return None, reason
    forward = LibraryForward(inference_copy, adapters)
    with adapters.only(-1) if adapters else nullcontext():
        agrees = holds(inference_copy.model, lambda: _agrees(forward))
    return (forward, "") if agrees else (None, "its cache or positions work in another way")


def unservable(model: Any) -> str:
    """Reason, by config and signature, why the own engine cannot serve a model; "" if it can."""
    if getattr(model.config, "is_encoder_decoder", False):
        return "it is an encoder-decoder"
    if getattr(model, "_is_stateful", False):
        return "it keeps a recurrent state"
    if reason := narrowed(model.config):
        return reason
    known = inspect.signature(model.forward).parameters
    missing = [name for name in ("position_ids", "past_key_values", "logits_to_keep") if name not in known]
    return f"its forward has no argument {missing[0]!r}" if missing else ""


def _agrees(forward: LibraryForward) -> bool:
    """Return whether two prompts decoded together give the logits of each alone.

    Catches what configs do not show: positions taken from the mask (ALiBi), caches of another layout.
    """
    device = forward.device
    texts = [[1, 2, 3, 4, 5], [3, 1]]
    padded = torch.tensor([texts[0], [3, 1, 0, 0, 0]], device=device)
    _, layers = forward.prefill(padded, [5, 2], [-1, -1])
    store = KeyValues([5, 2], 6, device, forward.dtype)
    store.insert(layers, torch.arange(2, device=device), torch.arange(2, device=device))
    actual = forward.step(torch.tensor([2, 2], device=device), store)
    alone = [forward.model(input_ids=torch.tensor([[*t, 2]], device=device)).logits[:, -1] for t in texts]
    actual, expected = actual.nan_to_num(), torch.cat(alone).float().nan_to_num()  # `Progress` reports damaged weights
    tolerance = (1e-3 if forward.dtype == torch.float32 else 5e-2) * float(expected.std())
    return bool((actual - expected).abs().max() <= tolerance)
