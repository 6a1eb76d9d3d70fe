"""Answers to one prompt in one sequence: the prompt is computed once for all of them.

    [prompt | answer 1 | answer 2 | ... ]     positions of every answer continue from the prompt's end

A mask lets an answer see the prompt and itself and none of its siblings, so that hidden states are those of separate
sequences up to rounding. With G answers of T tokens to a prompt of P tokens it replaces G(P + T) tokens by P + GT.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

LONGEST = 2048  # tokens of one packed sequence: beyond, attention over siblings costs more than the prompt it saves
WORTH = 0.9  # pack where the work falls below this share
PROMPT, PADDING = 0, -1


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """A batch of B packed sequences of W tokens, and where each answer token is predicted.

    Attributes:
        ids: (B, W).
        positions: (B, W).
        segment: (B, W) 0 on the prompt, 1, 2, ... on the answers, -1 on padding.
        row: (n,) the packed sequence of every answer token, answers in the order given.
        column: (n,) the column of the token before it.
        tokens: (n,) the answer tokens.
    """

    ids: np.ndarray
    positions: np.ndarray
    segment: np.ndarray
    row: np.ndarray
    column: np.ndarray
    tokens: np.ndarray


def padded(texts: Sequence[Sequence[int]], *, left: bool = False) -> np.ndarray:
    """Ids (R, W) of texts of different lengths, filled up with 0 on the right or on the left."""
    width = max(map(len, texts), default=0)
    ids = np.zeros((len(texts), width), dtype=np.int64)
    for row, text in enumerate(texts):
        start = width - len(text) if left else 0
        ids[row, start : start + len(text)] = text
    return ids


def sequences(prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]) -> list[list[int]]:
    """Group answers into packed sequences: indices, equal prompts together up to LONGEST tokens."""
    shared: list[list[int]] = []
    open_: dict[tuple[int, ...], tuple[list[int], int]] = {}
    for k, (prompt, answer) in enumerate(zip(prompts, answers, strict=True)):
        key = tuple(prompt)
        group, length = open_.get(key, ([], 0))
        if not group or length + len(answer) > LONGEST:
            group, length = [], len(prompt)
            shared.append(group)
        group.append(k)
        open_[key] = (group, length + len(answer))
    return shared


def worth_packing(
    shared: Sequence[Sequence[int]], prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], hidden: int
) -> bool:
    """Return whether packing by `sequences` saves work, in a decoder of width H = `hidden`.

    A token costs about 24 H^2 operations a layer outside attention, and 4 H for each place it looks at. Unmasked causal
    attention looks at half of the square, masked attention computes all of it.
    """
    if len(shared) == len(prompts):
        return False
    alone = max(len(p) + len(a) for p, a in zip(prompts, answers, strict=True))
    width = max(len(prompts[group[0]]) + sum(len(answers[k]) for k in group) for group in shared)
    padded = len(prompts) * alone * (6 * hidden + alone / 2)
    return len(shared) * width * (6 * hidden + width) < WORTH * padded


def pack(
    shared: Sequence[Sequence[int]], prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]]
) -> PackedBatch:
    """Lay out R prompts and their answers by `sequences`."""
    width = max(len(prompts[group[0]]) + sum(len(answers[k]) for k in group) for group in shared)
    ids, positions = (np.zeros((len(shared), width), dtype=np.int64) for _ in range(2))
    segment = np.full((len(shared), width), PADDING, dtype=np.int64)
    rows: list[np.ndarray] = [np.empty(0, dtype=np.int64)] * len(prompts)
    columns = list(rows)
    for index, group in enumerate(shared):
        prompt = prompts[group[0]]
        start = len(prompt)
        ids[index, :start], positions[index, :start], segment[index, :start] = prompt, np.arange(start), PROMPT
        for label, k in enumerate(group, 1):
            end = start + len(answers[k])
            ids[index, start:end], segment[index, start:end] = answers[k], label
            positions[index, start:end] = len(prompt) + np.arange(len(answers[k]))
            rows[k] = np.full(end - start, index)
            columns[k] = np.concatenate([[len(prompt) - 1], np.arange(start, end - 1)])[: end - start]
            start = end
    tokens = np.concatenate([np.asarray(answer, dtype=np.int64) for answer in answers])
    return PackedBatch(ids, positions, segment, np.concatenate(rows), np.concatenate(columns).astype(np.int64), tokens)


def attention_mask(segment: Tensor) -> Tensor:
    """(B, 1, W, W) mask, True where a position may attend.

    It attends to positions at or before itself, in the prompt or in its own segment.
    """
    query_segment, key_segment = segment[:, :, None], segment[:, None, :]
    earlier = torch.ones(segment.shape[1], segment.shape[1], dtype=torch.bool, device=segment.device).tril()
    return (earlier & ((key_segment == PROMPT) | (key_segment == query_segment)))[:, None]


def hidden_states(trunk: Any, layout: PackedBatch, device: torch.device) -> Tensor:
    """(n, H) hidden states before all answer tokens, in order, each prompt computed once."""
    ids, positions, segment, row, column = (
        torch.from_numpy(array).to(device)
        for array in (layout.ids, layout.positions, layout.segment, layout.row, layout.column)
    )
    mask = attention_mask(segment)
    hidden: Tensor = trunk(input_ids=ids, position_ids=positions, attention_mask=mask, use_cache=False)[0]
    return hidden[row, column]
