"""Log-probabilities of given answers under a model, with gradients: what a trainer and a reference model need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from palaver.agents.llm.packing import Packed, attention_mask, pack, padded, sequences, worth_packing
from palaver.agents.llm.split import Parts, split_head


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
    parts = split_head(model)
    shared = sequences(prompt_ids, token_ids)
    if parts is not None and worth_packing(shared, prompt_ids, token_ids, parts.head.in_features) and parts.packs:
        values = _packed(parts, pack(shared, prompt_ids, token_ids), temperature, device)
    else:
        values = _padded(model, parts, prompt_ids, token_ids, temperature, device)
    row, column = (torch.from_numpy(index).to(device) for index in np.nonzero(mask))
    return values.new_zeros(mask.shape).index_put((row, column), values), mask_here


def _packed(parts: Parts, layout: Packed, temperature: float, device: torch.device) -> Tensor:
    """Log-probabilities (n,) of all answer tokens, in order, with each prompt computed once."""
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
    ids = padded([[*prompt, *tokens] for prompt, tokens in zip(prompt_ids, token_ids, strict=True)])
    counts = [len(tokens) for tokens in token_ids]
    row = np.repeat(np.arange(len(ids)), counts)
    column = np.concatenate([np.arange(count) for count in counts])
    return ids, row, column + np.repeat([len(prompt) - 1 for prompt in prompt_ids], counts)
