"""Rows of a generation: their requests, their results, and which are finished."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

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
        ...

    def refresh(self) -> None:
        """Take over the model's weights after they changed."""
        ...


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
