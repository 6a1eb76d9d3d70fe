"""The own forward with adapters: rows of one batch may each have another.

A linear layer y = x W with LoRA adapters n = 1..N of factors A_n (in, r) and B_n (r, out) is computed as

    y = x W + ((x [A_1 .. A_N]) * m) [B_1; ..; B_N]

with m 1 on the columns of the row's own adapter and 0 elsewhere: three small operations for all adapters together, no
sorting of rows, and the folded weights of the base are there once. What the base folds into its products (norms, the
softmax scale) is folded into the factors; layers that share an input share the first of the two products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from palaver.agents.llm.generation.dense_decoder import PRODUCTS, DenseDecoder, FoldedLayer, FoldedProduct, Product
from palaver.agents.llm.generation.kv_cache import KeyValues, LayerStates


@dataclass(frozen=True, slots=True)
class _LowRank:
    """The factors of all adapters in one product, K columns in all.

    `kind` selects the owners of the columns (`_owners`).
    """

    down: Tensor  # (inputs, K)
    ups: list[tuple[slice, slice, Tensor]]  # of each layer in it: its columns k of K, its outputs o, and B (k, o)
    kind: int


class AdapterDecoder(DenseDecoder):
    """See `palaver.agents.llm.generation.forward.Forward`.

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

    def step(self, ids: Tensor, store: KeyValues) -> Tensor:
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
