"""Batching of rows: as many together as the memory of their keys, values and logits allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import torch

from palaver.agents.llm.generation.requests import GenerationRequest, GenerationResult

CPU_STORE_BYTES = 2 << 30  # most memory for the keys and values of one batch; on a GPU GPU_STORE_SHARE of what is free
GPU_STORE_SHARE = 0.4
BATCH_LOGITS = 1 << 27  # most logits of one step


class Room(NamedTuple):
    """Most columns (tokens of all rows together) and most rows of one batch."""

    columns: int
    rows: int


def room(config: Any, device: torch.device, dtype: torch.dtype) -> Room:
    """For a model of this config that computes in `dtype`."""
    columns = store_bytes(device) // column_bytes(config, dtype)
    return Room(max(1, columns), max(1, BATCH_LOGITS // config.get_text_config().vocab_size))


def store_bytes(device: torch.device) -> int:
    """Most memory for the keys and values of one batch."""
    return int(free_cuda(device) * GPU_STORE_SHARE) if device.type == "cuda" else CPU_STORE_BYTES


def free_cuda(device: torch.device) -> int:
    """Bytes of a GPU that torch can still use.

    It keeps what it has freed, which the driver counts as used.
    """
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + cached


def column_bytes(config: Any, dtype: torch.dtype) -> int:
    """Memory of one token's keys and values over all layers.

    For a model without attention, it is the memory of its width.
    """
    config = config.get_text_config()
    queries = getattr(config, "num_attention_heads", None) or 1
    heads = getattr(config, "num_key_value_heads", None) or queries
    size = getattr(config, "head_dim", None) or config.hidden_size // queries
    return int(2 * config.num_hidden_layers * heads * size * dtype.itemsize)


def batches(prompts: Sequence[Sequence[int]], rows: Sequence[GenerationRequest], capacity: Room) -> Iterator[list[int]]:
    """Yield indices of rows that run together, of like length where one batch cannot hold all.

    Within a batch rows of equal sampling are contiguous, and the samples of a prompt adjacent.
    """
    batch: list[int] = []
    answer = 0
    for index in sorted(range(len(rows)), key=lambda index: (len(prompts[rows[index].prompt]), index)):
        row = rows[index]
        longest = max(answer, row.sampling.max_tokens)
        columns = (len(prompts[row.prompt]) + longest) * (len(batch) + 1)
        if batch and (columns > capacity.columns or len(batch) >= capacity.rows):
            yield _grouped(batch, rows)
            batch, longest = [], row.sampling.max_tokens
        batch.append(index)
        answer = longest
    if batch:
        yield _grouped(batch, rows)


def in_batches(
    prompts: Sequence[Sequence[int]],
    rows: Sequence[GenerationRequest],
    capacity: Room,
    draw: Callable[[list[GenerationRequest]], list[GenerationResult]],
) -> list[GenerationResult]:
    """One sample per row, in order, drawn by `batches`."""
    samples: dict[int, GenerationResult] = {}
    for indices in batches(prompts, rows, capacity):
        samples |= zip(indices, draw([rows[index] for index in indices]), strict=True)
    return [samples[index] for index in range(len(rows))]


def _grouped(batch: list[int], rows: Sequence[GenerationRequest]) -> list[int]:
    kinds = {kind: rank for rank, kind in enumerate(dict.fromkeys(rows[index].sampling for index in batch))}
    return sorted(batch, key=lambda index: (kinds[rows[index].sampling], rows[index].prompt))
