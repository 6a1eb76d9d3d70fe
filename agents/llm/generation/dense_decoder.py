"""Own forward of plain dense decoders (Llama, Mistral, Qwen2, Qwen3).

It computes the same sums as transformers in fewer operations. At decoding one operation works on a few rows, so its
fixed cost is most of its cost. Hence queries, keys and values are one product, gate and up another; the weights of a
norm are folded into the product that follows it; the softmax scale into the queries; residual sums into the products
that feed them. The folded copies are rebuilt by `refresh`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from palaver.agents.llm.generation.kv_cache import KeyValues, LayerStates, StaticKeyValues
from palaver.agents.llm.scoring.fused_logprobs import product, rounds_late
from palaver.agents.llm.scoring.split_head import narrowed

_FAMILIES = {"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM", "Qwen3ForCausalLM"}

Product = Literal["qkv", "out", "gate_up", "down"]
PRODUCTS: tuple[Product, ...] = ("qkv", "out", "gate_up", "down")


def _plain(linear: Any, bias: bool = False) -> bool:
    return type(linear) is nn.Linear and (bias or getattr(linear, "bias", None) is None)


def _plain_layer(layer: Any, adapted: bool) -> bool:
    attention, mlp = layer.self_attn, layer.mlp

    def plain(linear: Any, bias: bool = False) -> bool:
        return _plain(getattr(linear, "base_layer", linear) if adapted else linear, bias)

    biased = (attention.q_proj, attention.k_proj, attention.v_proj)
    return all(plain(linear, True) for linear in biased) and all(
        plain(linear) for linear in (attention.o_proj, mlp.gate_proj, mlp.up_proj, mlp.down_proj)
    )


@dataclass(frozen=True, slots=True)
class FoldedProduct:
    """Parts folded into one product: linear layers of one input, the norm, an output factor."""

    linears: tuple[Any, ...]
    norm: Tensor | None
    factors: tuple[float, ...]


@dataclass
class FoldedLayer:
    """Folded weights of one layer, each (inputs, outputs).

    a = heads + 2 kv_heads, d = head size.
    """

    qkv: Tensor  # (H, a*d)
    qkv_bias: Tensor | None  # (a*d,)
    qk_scale: Tensor | None  # (heads + kv_heads, d), the weights of the query and key norms
    out: Tensor  # (heads*d, H)
    gate_up: Tensor  # (H, 2*I)
    down: Tensor  # (I, H)
    extra: dict[Product, Any] = field(default_factory=dict)  # what a subclass adds to a product


class DenseDecoder:
    """See `palaver.agents.llm.generation.forward.Forward`."""

    def __init__(self, model: Any, dtype: torch.dtype) -> None:
        self.model = model
        self.dtype = dtype
        config = model.config
        attention = model.model.layers[0].self_attn
        self.heads, self.kv_heads = config.num_attention_heads, config.num_key_value_heads
        self.dim: int = attention.head_dim
        self.eps: float = config.rms_norm_eps
        self.normed_heads = hasattr(attention, "q_norm")
        self.cpu = self.device.type == "cpu"
        self._rope = (torch.empty(0), torch.empty(0))
        # |x| / sqrt(size) = rms(x); adding eps under the root of the mean square makes |x| hypot(|x|, sqrt(size * eps))
        self._floor = {size: torch.tensor(math.sqrt(size * self.eps)) for size in (config.hidden_size, self.dim)}
        self.layers: list[FoldedLayer] = []
        self.refresh()

    @staticmethod
    def supports(model: Any, *, adapted: bool = False) -> bool:
        """Return whether this file computes this model: a known family, no window, plain rope.

        With `adapted`, its linear layers may be wrapped by peft's; what they add is not computed here.
        """
        if type(model).__name__ not in _FAMILIES or not type(model).__module__.startswith("transformers."):
            return False
        rope = model.model.rotary_emb
        if narrowed(model.config) or model.config.hidden_act != "silu" or rope.rope_type != "default":
            return False
        if not _plain(model.lm_head) or type(model.model.embed_tokens) is not nn.Embedding:
            return False
        dim = model.model.layers[0].self_attn.head_dim
        return 2 * len(rope.inv_freq) == dim and all(_plain_layer(layer, adapted) for layer in model.model.layers)

    @property
    def device(self) -> torch.device:
        """Device of the weights."""
        return torch.device(self.model.lm_head.weight.device)

    @torch.no_grad()
    def refresh(self) -> None:
        """Fold the model's present weights."""
        for index, layer in enumerate(self.model.model.layers):
            self.layers[index : index + 1] = [self._fold(layer)]  # its old copy goes before the next is made
        embedding, head = self.model.model.embed_tokens.weight, self.model.lm_head.weight
        self.embedding = embedding.to(self.dtype)
        self.head_norm = self._norm_weight(self.model.model.norm).to(self.dtype, copy=True)
        self.head = self.embedding if head is embedding else head.to(self.dtype)
        self.packed_head = _packed(self.head)

    def prefill(self, ids: Tensor, lengths: Sequence[int], adapters: Sequence[int] = ()) -> tuple[Tensor, LayerStates]:
        """See `Forward.prefill`."""
        del adapters
        U, P = ids.shape
        cos, sin = (table[:P, None] for table in self._rope_tables(P))  # (P, 1, d)
        x = F.embedding(ids.flatten(), self.embedding)
        states = []
        for layer in self.layers:
            qk, v = self._qkv(layer, x)
            qk = _rotate(qk.view(U, P, -1, self.dim), cos, sin).transpose(1, 2)  # (U, heads + kv_heads, P, d)
            q, k = qk[:, : self.heads], qk[:, self.heads :]
            v = v.view(U, P, self.kv_heads, self.dim).transpose(1, 2)
            share = self.heads // self.kv_heads
            mixed = F.scaled_dot_product_attention(
                q, k.repeat_interleave(share, 1), v.repeat_interleave(share, 1), is_causal=True, scale=1.0
            )
            self._finish(layer, x, mixed.transpose(1, 2).reshape(U * P, -1))
            states.append((k, v))
        last = torch.tensor([row * P + length - 1 for row, length in enumerate(lengths)], device=ids.device)
        return self._logits(x[last]), states

    def step(self, ids: Tensor, store: KeyValues | StaticKeyValues) -> Tensor:
        """See `Forward.step`.

        With a static store nothing of it depends on the step, so that a graph can replay it.
        """
        R = len(ids)
        cos, sin = self._rope_tables(store.reach)
        positions = store.positions()
        cos, sin = cos[positions][:, None], sin[positions][:, None]  # (R, 1, d)
        mask = store.current_mask()
        x = F.embedding(ids, self.embedding)
        for index, layer in enumerate(self.layers):
            qk, v = self._qkv(layer, x)
            qk = _rotate(qk, cos, sin)
            q = qk[:, : self.heads].reshape(R, self.kv_heads, -1, self.dim)  # queries of a key head as if positions
            k, v = store.put(index, qk[:, self.heads :], v)
            mixed = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=1.0)
            self._finish(layer, x, mixed.reshape(R, -1))
        store.advance()
        return self._logits(x)

    def _qkv(self, layer: FoldedLayer, x: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys (n, heads + kv_heads, d) and values (n, kv_heads, d).

        Queries and keys are normed but not rotated.
        """
        both = self._times(self._normed(x), layer, "qkv")
        if layer.qkv_bias is not None:
            both += layer.qkv_bias
        both = both.view(len(x), -1, self.dim)
        qk, v = both[:, : self.heads + self.kv_heads], both[:, self.heads + self.kv_heads :]
        if layer.qk_scale is not None:
            qk = self._normed(qk) * layer.qk_scale
        return qk, v

    def _finish(self, layer: FoldedLayer, x: Tensor, mixed: Tensor) -> None:
        """Add attention's output and the feed-forward block to x (n, H), in place.

        x is the residual stream.
        """
        self._add_times(x, mixed, layer, "out")
        gate, up = self._times(self._normed(x), layer, "gate_up").chunk(2, -1)
        self._add_times(x, F.silu(gate).mul_(up), layer, "down")

    def _times(self, x: Tensor, layer: FoldedLayer, product: Product) -> Tensor:
        return torch.mm(x, getattr(layer, product))

    def _add_times(self, total: Tensor, x: Tensor, layer: FoldedLayer, product: Product) -> None:
        total.addmm_(x, getattr(layer, product))

    def _normed(self, x: Tensor) -> Tensor:
        """x / rms(x), up to the factor sqrt(size) that `_norm_weight` holds.

        For a CPU, where no fused kernel exists.
        """
        size = x.shape[-1]
        if not self.cpu:
            return F.rms_norm(x, (size,), None, self.eps)
        if x.dtype != torch.float32:
            return F.rms_norm(x.float(), (size,), None, self.eps).mul_(size**-0.5).to(x.dtype)
        return x / torch.hypot(torch.linalg.vector_norm(x, dim=-1, keepdim=True), self._floor[size])

    def _norm_weight(self, norm: Any) -> Tensor:
        weight: Tensor = norm.weight
        return weight * math.sqrt(len(weight)) if self.cpu else weight

    def _logits(self, x: Tensor) -> Tensor:
        x = self._normed(x) * self.head_norm
        if self.packed_head is not None:
            return torch.ops.mkldnn._linear_pointwise(x, self.packed_head, None, "none", [], "")  # type: ignore[no-any-return]
        return product(x, self.head.t(), torch.float32) if rounds_late(x) else F.linear(x, self.head).float()

    def _fold(self, layer: Any) -> FoldedLayer:
        attention = layer.self_attn
        qkv = self._parts(layer, "qkv")
        bias, qk_scale = None, None
        if attention.q_proj.bias is not None:
            bias = torch.cat([p.bias * factor for p, factor in zip(qkv.linears, qkv.factors, strict=True)])
        if self.normed_heads:
            q, k = self._norm_weight(attention.q_norm) * self.dim**-0.5, self._norm_weight(attention.k_norm)
            qk_scale = torch.cat([q.expand(self.heads, -1), k.expand(self.kv_heads, -1)])  # a copy of both
        return FoldedLayer(
            qkv=self._folded(qkv),
            qkv_bias=None if bias is None else bias.to(self.dtype),
            qk_scale=None if qk_scale is None else qk_scale.to(self.dtype),
            out=self._folded(self._parts(layer, "out")),
            gate_up=self._folded(self._parts(layer, "gate_up")),
            down=self._folded(self._parts(layer, "down")),
        )

    def _parts(self, layer: Any, product: Product) -> FoldedProduct:
        """Parts folded into a product of a layer."""
        attention, mlp = layer.self_attn, layer.mlp
        if product == "qkv":
            query = 1.0 if self.normed_heads else self.dim**-0.5
            linears = (attention.q_proj, attention.k_proj, attention.v_proj)
            return FoldedProduct(linears, self._norm_weight(layer.input_layernorm), (query, 1.0, 1.0))
        if product == "gate_up":
            norm = self._norm_weight(layer.post_attention_layernorm)
            return FoldedProduct((mlp.gate_proj, mlp.up_proj), norm, (1.0, 1.0))
        return FoldedProduct((attention.o_proj if product == "out" else mlp.down_proj,), None, (1.0,))

    def _folded(self, parts: FoldedProduct) -> Tensor:
        """Concatenated weights of the layers, (inputs, outputs)."""
        if not self.cpu:
            return self._folded_by_rows(parts).t()
        weights = [
            p.weight if factor == 1 else p.weight * factor
            for p, factor in zip(parts.linears, parts.factors, strict=True)
        ]
        weight: Tensor = torch.cat(weights) if len(weights) > 1 else weights[0]
        return self._transposed(weight if parts.norm is None else weight * parts.norm)

    def _folded_by_rows(self, parts: FoldedProduct) -> Tensor:
        """Concatenated weights (outputs, inputs).

        One operation scales and rounds a linear layer, since on a GPU the launches cost most.
        """
        sizes = [linear.out_features for linear in parts.linears]
        folded = torch.empty((sum(sizes), parts.linears[0].in_features), dtype=self.dtype, device=self.device)
        for linear, factor, rows in zip(parts.linears, parts.factors, torch.split(folded, sizes), strict=True):
            norm = 1.0 if parts.norm is None else parts.norm
            torch.mul(linear.weight, norm if factor == 1 else norm * factor, out=rows)
        return folded

    def _transposed(self, weight: Tensor) -> Tensor:
        return weight.to(self.dtype).t().contiguous()

    def _rope_tables(self, positions: int) -> tuple[Tensor, Tensor]:
        """cos and signed sin (n >= positions, d), grown on demand."""
        if len(self._rope[0]) < positions:
            rotary = self.model.model.rotary_emb
            n = max(positions, 2 * len(self._rope[0]), 512)
            columns = torch.arange(n, device=self.device, dtype=torch.float32)
            angles = columns[:, None] * rotary.inv_freq.to(self.device, torch.float32)
            cos, sin = angles.cos() * rotary.attention_scaling, angles.sin() * rotary.attention_scaling
            self._rope = (torch.cat((cos, cos), -1).to(self.dtype), torch.cat((-sin, sin), -1).to(self.dtype))
        return self._rope


def _rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary position embedding of (..., heads, d).

    The halves of d are the two axes of each plane, and `sin` holds the sign.
    """
    return torch.addcmul(x * cos, x.roll(x.shape[-1] // 2, -1), sin)


def _packed(weight: Tensor) -> Tensor | None:
    """The head in oneDNN's blocked layout; None where there is none.

    It is 2.5 times faster than BLAS for a few rows.
    """
    built_in = hasattr(torch.ops, "mkldnn") and hasattr(torch.ops.mkldnn, "_reorder_linear_weight")
    if weight.device.type != "cpu" or weight.dtype != torch.float32 or not built_in:
        return None
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous(), 8)
    return packed
