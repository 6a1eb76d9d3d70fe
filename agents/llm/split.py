"""A causal LM as trunk and head, so that the head runs only where its logits are wanted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from palaver.agents.llm.linear import linear_logprobs
from palaver.agents.llm.packing import attention_mask, pack

# config fields by which models change their logits after the head (Gemma 2, Cohere, Granite, Falcon H1, MiniCPM)
_RESHAPING = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier", "dim_model_base")


@dataclass(frozen=True, slots=True)
class Parts:
    """A causal LM taken apart: logits = head(trunk(ids)). `packs`: answers may share a prompt's sequence."""

    trunk: nn.Module
    head: nn.Linear
    packs: bool

    def score(self, hidden: Tensor, targets: Tensor, temperature: float) -> Tensor:
        """Log-probabilities (n,) of targets from hidden states (n, H)."""
        return linear_logprobs(hidden, self.head.weight, targets, self.head.bias, temperature)


_PARTS: WeakKeyDictionary[nn.Module, Parts | None] = WeakKeyDictionary()


def split_head(model: Any) -> Parts | None:
    """Trunk and linear head where logits = head(trunk(ids)); None where the model does more (soft caps, scales)."""
    if model not in _PARTS:
        _PARTS[model] = _split(model)
    return _PARTS[model]


def _split(model: Any) -> Parts | None:
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model  # an adapter's wrapper
    trunk, head = inner.base_model, inner.get_output_embeddings()
    if type(head) is not nn.Linear or trunk is inner:
        return None
    if any(getattr(inner.config, name, None) not in (None, 1, 1.0) for name in _RESHAPING):
        return None
    training = model.training
    model.eval()
    try:
        with torch.no_grad(), torch.autocast(head.weight.device.type, enabled=False):
            ids = torch.arange(1, 9, device=head.weight.device)[None] % head.weight.shape[0]
            expected = model(input_ids=ids, use_cache=False).logits
            found = head(trunk(input_ids=ids, use_cache=False)[0])
            close = _close(found, expected)
            packs = close and _packs(trunk, ids[0].tolist())
    finally:
        model.train(training)
    return Parts(trunk, head, packs) if close else None


def _packs(trunk: nn.Module, ids: list[int]) -> bool:
    """Whether the trunk heeds positions and a mask as packing needs them: tried on a prompt with two answers."""
    device = next(trunk.parameters()).device
    prompts, answers = [ids[:3], ids[:3]], [ids[3:6], ids[4:8]]
    layout = pack(prompts, answers)
    segment = torch.from_numpy(layout.segment).to(device)
    together = trunk(
        input_ids=torch.from_numpy(layout.ids).to(device),
        position_ids=torch.from_numpy(layout.positions).to(device),
        attention_mask=attention_mask(segment),
        use_cache=False,
    )[0][0]
    alone = [
        trunk(input_ids=torch.tensor([p + a], device=device), use_cache=False)[0][0]
        for p, a in zip(prompts, answers, strict=True)
    ]
    expected = torch.cat([alone[0], alone[1][3:]])
    return _close(together, expected)


def _close(found: Tensor, expected: Tensor) -> bool:
    found, expected = found.nan_to_num(), expected.nan_to_num()  # damaged weights are reported where they are used
    return torch.allclose(found, expected, rtol=1e-3, atol=1e-5 * float(expected.abs().max()))
