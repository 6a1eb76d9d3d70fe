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
    """Bytes of a GPU that torch can still use; it keeps what it has freed, which the driver counts as used."""
    cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return torch.cuda.mem_get_info(device)[0] + cached


def column_bytes(config: Any, dtype: torch.dtype) -> int:
    """Memory of one token's keys and values over all layers; of a model without attention, that of its width."""
    config = config.get_text_config()
    queries = getattr(config, "num_attention_heads", None) or 1
    heads = getattr(config, "num_key_value_heads", None) or queries
    size = getattr(config, "head_dim", None) or config.hidden_size // queries
    return int(2 * config.num_hidden_layers * heads * size * dtype.itemsize)


def batches(prompts: Sequence[Sequence[int]], rows: Sequence[GenerationRequest], most: Room) -> Iterator[list[int]]:
    """Yield indices of rows that run together, of like length where one batch cannot hold all.

    Within a batch rows of equal sampling are contiguous, and the samples of a prompt adjacent.
    """
    batch: list[int] = []
    answer = 0
    for place in sorted(range(len(rows)), key=lambda place: (len(prompts[rows[place].prompt]), place)):
        row = rows[place]
        longest = max(answer, row.sampling.max_tokens)
        columns = (len(prompts[row.prompt]) + longest) * (len(batch) + 1)
        if batch and (columns > most.columns or len(batch) >= most.rows):
            yield _grouped(batch, rows)
            batch, longest = [], row.sampling.max_tokens
        batch.append(place)
        answer = longest
    if batch:
        yield _grouped(batch, rows)


def in_batches(
    prompts: Sequence[Sequence[int]],
    rows: Sequence[GenerationRequest],
    most: Room,
    draw: Callable[[list[GenerationRequest]], list[GenerationResult]],
) -> list[GenerationResult]:
    """One sample per row, in order, drawn by `batches`."""
    samples: dict[int, GenerationResult] = {}
    for places in batches(prompts, rows, most):
        samples |= zip(places, draw([rows[place] for place in places]), strict=True)
    return [samples[place] for place in range(len(rows))]


def _grouped(batch: list[int], rows: Sequence[GenerationRequest]) -> list[int]:
    kinds = {kind: number for number, kind in enumerate(dict.fromkeys(rows[place].sampling for place in batch))}
    return sorted(batch, key=lambda place: (kinds[rows[place].sampling], rows[place].prompt))
