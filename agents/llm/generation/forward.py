"""Forward passes of the engine, for any causal LM that attends to all earlier tokens."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor
from transformers import DynamicCache

from palaver.agents.llm.generation.dense_decoder import PRODUCTS, DenseDecoder, FoldedLayer, FoldedProduct, Product
from palaver.agents.llm.generation.kv_cache import KeyValues, LayerStates, StaticKeyValues, as_library_cache
from palaver.agents.llm.generation.requests import Adapters
from palaver.agents.llm.model.inference_copy import InferenceCopy
from palaver.agents.llm.scoring.split_head import holds, narrowed, split_head


@dataclass(frozen=True, slots=True)
class _LowRank:
    """The factors of all adapters in one product, K columns in all.

    `kind` selects the owners of the columns (`_owners`).
    """

    down: Tensor  # (inputs, K)
    ups: list[tuple[slice, slice, Tensor]]  # of each layer in it: its columns k of K, its outputs o, and B (k, o)
    kind: int


class AdapterDecoder(DenseDecoder):
    """The own forward with adapters: rows of one batch may each have another; see `Forward`.

    A linear layer y = x W with LoRA adapters n = 1..N of factors A_n (in, r) and B_n (r, out) is computed as

        y = x W + ((x [A_1 .. A_N]) * m) [B_1; ..; B_N]

    with m 1 on the columns of the row's own adapter and 0 elsewhere: three small operations for all adapters together,
    no sorting of rows, and the folded weights of the base are there once. What the base folds into its products (norms,
    the softmax scale) is folded into the factors; layers that share an input share the first of the two products.

    Args:
        model: with peft's layers in place; its own weights are frozen.
        dtype: that it computes in.
        served: the adapters, by their names in peft's layers.
    """

    def __init__(self, model: Any, dtype: torch.dtype, served: Sequence[str]) -> None:
        self.served = tuple(served)
        self._owners: dict[tuple[int, ...], Tensor] = {}  # whose column k is, for each way the columns are dealt out
        self._masks: list[Tensor] = []  # (rows, 1, K), one for each of `_owners`
        super().__init__(model, dtype)

    @torch.no_grad()
    def refresh(self) -> None:
        """Take over the adapters' present weights; the base is folded once."""
        if not self.layers:
            super().refresh()
        for layer, folded in zip(self.model.model.layers, self.layers, strict=True):
            stacked = {product: self._stacked(self._parts(layer, product)) for product in PRODUCTS}
            folded.extra = {product: factors for product, factors in stacked.items() if factors is not None}

    def prefill(self, ids: Tensor, lengths: Sequence[int], adapters: Sequence[int] = ()) -> tuple[Tensor, LayerStates]:
        """See `Forward.prefill`."""
        self._choose(torch.tensor(adapters or [-1] * len(ids), device=ids.device))
        return super().prefill(ids, lengths)

    def step(self, ids: Tensor, store: KeyValues | StaticKeyValues) -> Tensor:
        """See `Forward.step`."""
        self._choose(store.adapters)
        return super().step(ids, store)

    def _times(self, x: Tensor, layer: FoldedLayer, product: Product) -> Tensor:
        total = super()._times(x, layer, product)
        self._add_low_rank(total, x, layer, product)
        return total

    def _add_times(self, total: Tensor, x: Tensor, layer: FoldedLayer, product: Product) -> None:
        super()._add_times(total, x, layer, product)
        self._add_low_rank(total, x, layer, product)

    def _add_low_rank(self, total: Tensor, x: Tensor, layer: FoldedLayer, product: Product) -> None:
        """Add to (n, outputs) the terms of each row's adapter on x (n, inputs).

        n is a multiple of the number of rows.
        """
        factors: _LowRank | None = layer.extra.get(product)
        if factors is not None:
            mask = self._masks[factors.kind]
            low = torch.mm(x, factors.down)
            low.view(len(mask), -1, mask.shape[2]).mul_(mask)
            for columns, outputs, up in factors.ups:
                total[:, outputs].addmm_(low[:, columns], up)

    def _choose(self, adapters: Tensor) -> None:
        """Set the adapter (rows,) of each row from now on."""
        self._masks = [(owner == adapters[:, None]).to(self.dtype)[:, None] for owner in self._owners.values()]

    def _stacked(self, parts: FoldedProduct) -> _LowRank | None:
        """The factors of all adapters in one product; None where none has any."""
        downs: list[Tensor] = []
        ups: list[tuple[slice, slice, Tensor]] = []
        owners: list[int] = []
        output = 0
        for linear, factor in zip(parts.linears, parts.factors, strict=True):
            outputs = slice(output, output + linear.out_features)
            output = outputs.stop
            members = [n for n, name in enumerate(self.served) if name in getattr(linear, "lora_A", ())]
            if members:
                names = [self.served[n] for n in members]
                scaled = [linear.lora_B[name].weight.t() * (linear.scaling[name] * factor) for name in names]
                ranks = [len(up) for up in scaled]
                ups.append((slice(len(owners), len(owners) + sum(ranks)), outputs, torch.cat(scaled).to(self.dtype)))
                downs += [linear.lora_A[name].weight for name in names]
                owners += [n for n, rank in zip(members, ranks, strict=True) for _ in range(rank)]
        if not owners:
            return None
        down = torch.cat(downs)
        kind = tuple(owners)
        self._owners.setdefault(kind, torch.tensor(owners, device=self.device))
        index = list(self._owners).index(kind)
        return _LowRank(self._transposed(down if parts.norm is None else down * parts.norm), ups, index)


class Forward(Protocol):
    """A causal LM in the two steps of generation."""

    dtype: torch.dtype
    model: Any

    @property
    def device(self) -> torch.device:
        """Device of the computation."""

    def prefill(self, ids: Tensor, lengths: Sequence[int], adapters: Sequence[int] = ()) -> tuple[Tensor, LayerStates]:
        """Run right-padded prompts (U, P); return logits (U, V) and layer states (U, h, P, d).

        Logits are those after each prompt's last token. `adapters` (U) is the adapter index of each, -1 or nothing for
        none; a model without adapters ignores it.
        """

    def step(self, ids: Tensor, store: KeyValues) -> Tensor:
        """Add one token per row (R,); return logits (R, V).

        Fills the store's current column and moves it on.
        """

    def refresh(self) -> None:
        """Take over the model's weights after they changed."""


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
        cache = DynamicCache()
        row = torch.arange(len(ids), device=ids.device)
        last = torch.tensor([length - 1 for length in lengths], device=ids.device)
        with self._mixed(adapters or [-1] * len(ids)):
            if parts is not None:
                logits = parts.head(parts.trunk(input_ids=ids, past_key_values=cache, use_cache=True)[0][row, last])
            else:
                columns, index = torch.unique(last, return_inverse=True)
                output = self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=columns)
                logits = output.logits[row, index]
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
        store.advance()
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
