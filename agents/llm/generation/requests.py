"""Rows of a generation: their requests, results, adapters, batches, and which are finished."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import numpy as np
import torch
from torch import Tensor

from palaver.core import Finish, PolicyError, Sampling

_TAIL = 8  # tokens beyond a stop string's bytes that are decoded to find it


@dataclass(frozen=True, slots=True)
class GenerationRequest:
    """One sample to draw: its prompt, seed, sampling parameters and adapter.

    The adapter is an index, -1 for none. Rows of one prompt have one adapter: the same text for two adapters is two
    prompts.
    """

    prompt: int
    seed: int
    sampling: Sampling
    adapter: int = -1


@dataclass(frozen=True, slots=True)
class GenerationResult:
    """Sampled ids, with the end token where one came, and both log-probabilities of each."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    sample_logprobs: tuple[float, ...]
    finish: Finish


class Generator(Protocol):
    """Draws rows from a model."""

    def generate(self, prompts: Sequence[Sequence[int]], rows: Sequence[GenerationRequest]) -> list[GenerationResult]:
        """One sample per row, in order."""

    def refresh(self) -> None:
        """Take over the model's weights after they changed."""


class Progress:
    """The tokens of every row so far and how each ended."""

    def __init__(
        self, rows: Sequence[GenerationRequest], end_ids: frozenset[int], decode: Callable[[Sequence[int]], str]
    ) -> None:
        self.rows = rows
        self.end_ids = end_ids
        self.decode = decode
        self.tokens: list[list[int]] = [[] for _ in rows]
        self.finish: list[Finish | None] = [None] * len(rows)
        self._records: list[tuple[Sequence[int], np.ndarray]] = []

    def take(self, live: Sequence[int], ids: Sequence[int]) -> None:
        """One new token for each of the rows in `live`; those that had ended ignore theirs."""
        for row, token in zip(live, ids, strict=True):
            if self.finish[row] is None:
                self.tokens[row].append(token)
                self.finish[row] = self._ended(row, token)

    def record(self, live: Sequence[int], drawn: Sequence[Tensor]) -> None:
        """Log-probabilities (R,) of some steps of the rows in `live`.

        Plain and sampled ones alternate.
        """
        values = torch.stack(list(drawn)).view(len(drawn) // 2, 2, -1)
        self._records.append((live, values.cpu().numpy()))

    def samples(self) -> list[GenerationResult]:
        """One per row.

        Raises:
            PolicyError: a probability is not finite.
        """
        parts: list[list[np.ndarray]] = [[] for _ in self.rows]
        for live, values in self._records:
            for column, row in enumerate(live):
                parts[row].append(values[:, :, column])
        samples = []
        for tokens, logprobs, finish in zip(self.tokens, parts, self.finish, strict=True):
            both = np.concatenate(logprobs)[: len(tokens)]
            if not np.isfinite(both).all():
                raise PolicyError("the model's probabilities are not finite; its weights have diverged or are damaged")
            plain, sampled = both.T.tolist()
            samples.append(GenerationResult(tuple(tokens), tuple(plain), tuple(sampled), finish or "length"))
        return samples

    def _ended(self, row: int, token: int) -> Finish | None:
        sampling, tokens = self.rows[row].sampling, self.tokens[row]
        if token in self.end_ids or (sampling.stop and self._stopped(tokens, sampling.stop)):
            return "stop"
        return "length" if len(tokens) >= sampling.max_tokens else None

    def _stopped(self, tokens: list[int], stop: tuple[str, ...]) -> bool:
        """Return whether the last token completed a stop string, by a short tail of the tokens."""
        reach = max(len(string.encode("utf-8", "replace")) for string in stop) + _TAIL
        tail = self.decode(tokens[-reach:])
        return any(string in tail for string in stop)


class Adapters(Protocol):
    """Adapters of one model that answer requests.

    `GenerationRequest.adapter` is an index of `served`, or -1.
    """

    @property
    def served(self) -> Sequence[str]:
        """Their names in peft's layers."""

    def mixes(self) -> bool:
        """True if `mixed` works in this model."""

    def mixed(self, adapters: Sequence[int]) -> AbstractContextManager[None]:
        """Inside, row n of every batch of len(adapters) rows is computed with adapter `adapters[n]`."""

    def only(self, adapter: int) -> AbstractContextManager[Any]:
        """Inside, everything is computed with this one."""

    def config(self, key: str) -> Any:
        """The shape of an adapter, as peft has it."""

    def exported(self, key: str) -> dict[str, Tensor]:
        """The weights of an adapter as peft writes them to a file."""


class SequentialAdapters:
    """Generator for models whose layers cannot tell the rows of a batch apart.

    See `palaver.agents.llm.generation.requests.Generator`.
    """

    def __init__(self, generator: Generator, adapters: Adapters) -> None:
        self.generator, self.adapters = generator, adapters

    def generate(self, prompts: Sequence[Sequence[int]], rows: Sequence[GenerationRequest]) -> list[GenerationResult]:
        """See `Generator.generate`; a batch for each adapter."""
        by_adapter: dict[int, list[int]] = {}
        for index, row in enumerate(rows):
            by_adapter.setdefault(row.adapter, []).append(index)
        samples: dict[int, GenerationResult] = {}
        for adapter, indices in by_adapter.items():
            with self.adapters.only(adapter):
                samples |= zip(
                    indices, self.generator.generate(prompts, [rows[index] for index in indices]), strict=True
                )
        return [samples[index] for index in range(len(rows))]

    def refresh(self) -> None:
        """See `Generator.refresh`."""
        self.generator.refresh()


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
