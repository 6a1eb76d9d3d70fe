"""Log-probabilities of given answers under a model, with gradients: what a trainer and a reference model need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from palaver.agents.llm.linear import linear_logprobs

__all__ = ["linear_logprobs", "response_logprobs"]

# config fields by which models change their logits after the head (Gemma 2, Cohere, Granite, Falcon H1, MiniCPM)
_RESHAPING = ("final_logit_softcapping", "logit_scale", "logits_scaling", "lm_head_multiplier", "dim_model_base")
_PARTS: WeakKeyDictionary[nn.Module, tuple[nn.Module, nn.Module] | None] = WeakKeyDictionary()


def response_logprobs(
    model: Any, prompt_ids: Sequence[Sequence[int]], token_ids: Sequence[Sequence[int]], temperature: float = 1.0
) -> tuple[Tensor, Tensor]:
    """log pi(token) of every response token given its prompt and the tokens before it.

    One right-padded batch: causal attention never looks at padding on the right, so no mask is needed, and the head
    runs on the positions that predict a response token only.

    Args:
        model: a causal LM of transformers; gradients flow where they are enabled.
        prompt_ids: R prompts, each with a token or more.
        token_ids: R responses, end tokens included.
        temperature: divides the logits.

    Returns:
        log-probabilities (R, T), 0 on padding, and the mask (R, T), true on response tokens.
    """
    device = next(model.parameters()).device
    ids, row, position, column = _layout(prompt_ids, token_ids)
    length = max((len(tokens) for tokens in token_ids), default=0)
    mask = np.arange(length) < np.array([len(tokens) for tokens in token_ids])[:, None]
    mask_here = torch.from_numpy(mask).to(device)
    if not len(row):
        return torch.zeros(mask.shape, device=device), mask_here
    batch = torch.from_numpy(ids).to(device)
    at_row, at_position = torch.from_numpy(row).to(device), torch.from_numpy(position).to(device)
    targets = batch[at_row, at_position + 1]
    values = _at(model, batch[:, :-1], at_row, at_position, targets, temperature)
    logprobs = values.new_zeros(mask.shape).index_put((at_row, torch.from_numpy(column).to(device)), values)
    return logprobs, mask_here


def _layout(
    prompt_ids: Sequence[Sequence[int]], token_ids: Sequence[Sequence[int]]
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Right-padded ids (R, W); for every response token its row, the position that predicts it, and its index."""
    texts = [[*prompt, *tokens] for prompt, tokens in zip(prompt_ids, token_ids, strict=True)]
    ids = np.zeros((len(texts), max(map(len, texts), default=0)), dtype=np.int64)
    for place, text in enumerate(texts):
        ids[place, : len(text)] = text
    counts = [len(tokens) for tokens in token_ids]
    row = np.repeat(np.arange(len(texts)), counts)
    column = np.concatenate([np.arange(count) for count in counts]) if counts else np.zeros(0, dtype=np.int64)
    position = column + np.repeat([len(prompt) - 1 for prompt in prompt_ids], counts)
    return ids, row, position, column


def _at(model: Any, ids: Tensor, row: Tensor, position: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """Log-probabilities (n,) of targets predicted at (row, position) of a right-padded batch (R, W)."""
    parts = _parts(model)
    if parts is not None:
        trunk, head = parts
        hidden = trunk(input_ids=ids, use_cache=False)[0][row, position]
        weight, bias = head.weight, getattr(head, "bias", None)
        return linear_logprobs(hidden, weight, targets, bias, temperature)  # type: ignore[arg-type]
    kept, place = torch.unique(position, return_inverse=True)
    logits = model(input_ids=ids, use_cache=False, logits_to_keep=kept).logits[row, place].float() / temperature
    values: Tensor = logits.gather(1, targets[:, None])[:, 0] - logits.logsumexp(1)
    return values


def _parts(model: Any) -> tuple[nn.Module, nn.Module] | None:
    """Trunk and linear head where logits = head(trunk(ids)); None where the model does more (soft caps, scales)."""
    if model not in _PARTS:
        _PARTS[model] = _split(model)
    return _PARTS[model]


def _split(model: Any) -> tuple[nn.Module, nn.Module] | None:
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
    finally:
        model.train(training)
    close = torch.allclose(found, expected, rtol=1e-3, atol=1e-5 * float(expected.abs().max()))
    return (trunk, head) if close else None
