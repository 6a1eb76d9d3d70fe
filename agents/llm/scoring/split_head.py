"""A causal LM as trunk and head, and the capabilities of a model.

The head runs only where its logits are wanted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn

from palaver.agents.llm.model.inference_copy import evaluating
from palaver.agents.llm.scoring.fused_logprobs import linear_entropy, linear_logprobs
from palaver.agents.llm.scoring.packing import attention_mask, pack

# config fields by which models change their logits after the head (Gemma 2, Cohere, Granite, Falcon H1, MiniCPM)
_RESHAPING = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier", "dim_model_base")


@dataclass(frozen=True)
class SplitModel:
    """A causal LM taken apart: logits = head(trunk(ids))."""

    trunk: Any
    head: nn.Linear

    @cached_property
    def packs(self) -> bool:
        """True if answers may share a prompt's sequence; a packing mask would replace a window's."""
        return not narrowed(self.trunk.config) and holds(
            self.trunk, lambda: _packs(self.trunk, some_ids(self.head.out_features))
        )

    def score(self, hidden: Tensor, targets: Tensor, temperature: float) -> Tensor:
        """Log-probabilities (n,) of targets from hidden states (n, H)."""
        return linear_logprobs(hidden, self.head.weight, targets, self.head.bias, temperature)

    def entropy(self, hidden: Tensor, temperature: float) -> Tensor:
        """Entropy (n,) of what comes next from hidden states (n, H)."""
        return linear_entropy(hidden, self.head.weight, self.head.bias, temperature)


_PARTS: WeakKeyDictionary[nn.Module, SplitModel | None] = WeakKeyDictionary()


def split_head(model: Any) -> SplitModel | None:
    """Trunk and linear head where logits = head(trunk(ids)), else None.

    It is None for models that do more, such as soft caps and scales.
    """
    if model not in _PARTS:
        _PARTS[model] = _split(model)
    return _PARTS[model]


def narrowed(config: Any) -> str:
    """Reason, by config, why layers do not attend to all earlier tokens; "" if they do."""
    config = config.get_text_config()
    layers = getattr(config, "layer_types", None)
    if layers and set(layers) != {"full_attention"}:
        return f"it has layers of the kind {min(set(layers) - {'full_attention'})!r}"
    return "it attends through a sliding window" if not layers and getattr(config, "sliding_window", None) else ""


def holds(model: nn.Module, claim: Callable[[], bool]) -> bool:
    """Return whether a claim about a model's outputs holds, in evaluation mode without autocast.

    A claim that the model cannot even be tried on is false; but a lack of memory decides nothing and is raised.
    """
    device = next(model.parameters()).device
    try:
        with evaluating(model), torch.no_grad(), torch.autocast(device.type, enabled=False):
            return claim()
    except torch.OutOfMemoryError:
        raise
    except (RuntimeError, TypeError, ValueError, IndexError, AttributeError, NotImplementedError):
        return False


def _split(model: Any) -> SplitModel | None:
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model  # an adapter's wrapper
    trunk, head = inner.base_model, inner.get_output_embeddings()
    if type(head) is not nn.Linear or trunk is inner:
        return None
    if any(getattr(inner.config.get_text_config(), name, None) not in (None, 1, 1.0) for name in _RESHAPING):
        return None

    def equal() -> bool:
        ids = torch.tensor([some_ids(head.out_features)], device=head.weight.device)
        return close(head(trunk(input_ids=ids, use_cache=False)[0]), model(input_ids=ids, use_cache=False).logits)

    return SplitModel(trunk, head) if holds(model, equal) else None


def some_ids(vocabulary: int) -> list[int]:
    """A text to try a model on."""
    return [token % vocabulary for token in range(1, 9)]


def _packs(trunk: nn.Module, ids: list[int]) -> bool:
    """Return whether the trunk respects positions and packing masks, tried on two answers."""
    device = next(trunk.parameters()).device
    prompts, answers = [ids[:3], ids[:3]], [ids[3:6], ids[4:8]]
    layout = pack([[0, 1]], prompts, answers)
    packed, positions, segment = (
        torch.from_numpy(array).to(device) for array in (layout.ids, layout.positions, layout.segment)
    )
    mask = attention_mask(segment)
    together = trunk(input_ids=packed, position_ids=positions, attention_mask=mask, use_cache=False)[0][0]
    alone = [
        trunk(input_ids=torch.tensor([p + a], device=device), use_cache=False)[0][0]
        for p, a in zip(prompts, answers, strict=True)
    ]
    return close(together, torch.cat([alone[0], alone[1][3:]]))


def close(actual: Tensor, expected: Tensor) -> bool:
    """Return whether outputs agree up to rounding: of bf16, a few of its steps."""
    actual, expected = actual.nan_to_num(), expected.nan_to_num()  # damaged weights are reported where they are used
    if actual.dtype == torch.bfloat16:
        return bool((actual - expected).abs().max() <= 5e-2 * expected.std())
    return torch.allclose(actual, expected, rtol=1e-3, atol=1e-5 * float(expected.abs().max()))
