"""Log-probabilities of given answers under a model, with gradients: what a trainer and a reference model need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from palaver.agents.llm.linear import linear_logprobs
from palaver.agents.llm.packing import attention_mask, pack, worth_packing

__all__ = ["linear_logprobs", "response_logprobs"]

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


def response_logprobs(
    model: Any, prompt_ids: Sequence[Sequence[int]], token_ids: Sequence[Sequence[int]], temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """log pi(token) of every response token given its prompt and the tokens before it.

    One right-padded batch: causal attention never looks at padding on the right, so no mask is needed, and the head
    runs on the positions that predict a response token only. Where responses share prompts, and the model allows it,
    each prompt is computed once (`packing.py`).

    Args:
        model: a causal LM of transformers; gradients flow where they are enabled.
        prompt_ids: R prompts, each with a token or more.
        token_ids: R responses, end tokens included.
        temperature: divides the logits.

    Returns:
        log-probabilities (R, T), 0 on padding, and the mask (R, T), true on response tokens.
    """
    device = next(model.parameters()).device
    counts = [len(tokens) for tokens in token_ids]
    mask = np.arange(max(counts, default=0)) < np.array(counts)[:, None]
    mask_here = torch.from_numpy(mask).to(device)
    if not sum(counts):
        return torch.zeros(mask.shape, device=device), mask_here
    parts = _parts(model)
    if parts is not None and parts.packs and worth_packing(prompt_ids, token_ids, parts.head.in_features):
        values = _packed(parts, prompt_ids, token_ids, temperature, device)
    else:
        values = _padded(model, parts, prompt_ids, token_ids, temperature, device)
    row, column = (torch.from_numpy(index).to(device) for index in np.nonzero(mask))
    return values.new_zeros(mask.shape).index_put((row, column), values), mask_here


def _packed(
    parts: Parts,
    prompts: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
    temperature: float,
    device: torch.device,
) -> Tensor:
    """Log-probabilities (n,) of all answer tokens, in order, with each prompt computed once."""
    layout = pack(prompts, answers)
    ids, positions, segment, row, place, tokens = (
        torch.from_numpy(part).to(device)
        for part in (layout.ids, layout.positions, layout.segment, layout.row, layout.place, layout.tokens)
    )
    hidden = parts.trunk(
        input_ids=ids, position_ids=positions, attention_mask=attention_mask(segment), use_cache=False
    )[0]
    return parts.score(hidden[row, place], tokens, temperature)


def _padded(
    model: Any,
    parts: Parts | None,
    prompts: Sequence[Sequence[int]],
    answers: Sequence[Sequence[int]],
    temperature: float,
    device: torch.device,
) -> Tensor:
    """Log-probabilities (n,) of all answer tokens, in order, one sequence per answer."""
    ids, row, position = (torch.from_numpy(part).to(device) for part in _layout(prompts, answers))
    targets = ids[row, position + 1]
    if parts is not None:
        return parts.score(parts.trunk(input_ids=ids[:, :-1], use_cache=False)[0][row, position], targets, temperature)
    kept, place = torch.unique(position, return_inverse=True)
    logits = model(input_ids=ids[:, :-1], use_cache=False, logits_to_keep=kept).logits[row, place].float() / temperature
    values: Tensor = logits.gather(1, targets[:, None])[:, 0] - logits.logsumexp(1)
    return values


def _layout(
    prompt_ids: Sequence[Sequence[int]], token_ids: Sequence[Sequence[int]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Right-padded ids (R, W); for every response token its row and the position that predicts it."""
    texts = [[*prompt, *tokens] for prompt, tokens in zip(prompt_ids, token_ids, strict=True)]
    ids = np.zeros((len(texts), max(map(len, texts), default=0)), dtype=np.int64)
    for place, text in enumerate(texts):
        ids[place, : len(text)] = text
    counts = [len(tokens) for tokens in token_ids]
    row = np.repeat(np.arange(len(texts)), counts)
    column = np.concatenate([np.arange(count) for count in counts])
    return ids, row, column + np.repeat([len(prompt) - 1 for prompt in prompt_ids], counts)


def _parts(model: Any) -> Parts | None:
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
    return torch.allclose(found, expected, rtol=1e-3, atol=1e-5 * float(expected.abs().max()))
