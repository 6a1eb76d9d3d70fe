"""Generation by transformers' own `generate`.

It is the reference, and the fallback for what the own engine cannot serve. The library runs the model, its cache and
its masks. The draw is ours, as a logits processor that leaves only the drawn token for the library's greedy choice,
because the library draws from one global generator and cannot give a row a seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import GenerationConfig, LogitsProcessor, LogitsProcessorList, StoppingCriteria, StoppingCriteriaList

from palaver.agents.llm.generation.requests import (
    Adapters,
    GenerationRequest,
    GenerationResult,
    Progress,
    in_batches,
    room,
)
from palaver.agents.llm.generation.sampler import Sampler, uniform_table
from palaver.agents.llm.model.inference_copy import InferenceCopy
from palaver.agents.llm.scoring.packing import padded


class LibraryEngine:
    """See `palaver.agents.llm.generation.requests.Generator`.

    Batches are left-padded; finished rows stay in them.
    """

    def __init__(
        self,
        inference_copy: InferenceCopy,
        end_ids: frozenset[int],
        decode: Callable[[Sequence[int]], str],
        adapters: Adapters | None = None,
    ) -> None:
        self.inference_copy = inference_copy
        self.model = inference_copy.model
        self.end_ids = end_ids
        self.decode = decode
        self.adapters = adapters

    def refresh(self) -> None:
        """See `Generator.refresh`."""
        self.inference_copy.refresh()

    @torch.no_grad()
    def generate(self, prompts: Sequence[Sequence[int]], rows: Sequence[GenerationRequest]) -> list[GenerationResult]:
        """See `Generator.generate`."""
        capacity = room(self.model.config, self.inference_copy.device, self.inference_copy.dtype)
        return in_batches(
            prompts, rows, capacity, lambda batch: self._run([prompts[row.prompt] for row in batch], batch)
        )

    def _run(self, texts: Sequence[Sequence[int]], rows: list[GenerationRequest]) -> list[GenerationResult]:
        """One batch, rows and their prompts side by side."""
        device = self.inference_copy.device
        progress = Progress(rows, self.end_ids, self.decode)
        ids = padded(texts, left=True)
        mask = np.arange(ids.shape[1]) >= ids.shape[1] - np.array([len(text) for text in texts])[:, None]
        watch = _Watch(progress, device)
        plain = GenerationConfig(
            max_new_tokens=max(row.sampling.max_tokens for row in rows), do_sample=False, pad_token_id=0, num_beams=1
        )
        saved_config = self.model.generation_config
        self.model.generation_config = GenerationConfig()  # no hidden defaults
        mixed = self.adapters.mixed([row.adapter for row in rows]) if self.adapters else nullcontext()
        try:
            with mixed:
                self.model.generate(
                    torch.from_numpy(ids).to(device),
                    attention_mask=torch.from_numpy(mask.astype(np.int64)).to(device),
                    generation_config=plain,
                    logits_processor=LogitsProcessorList([watch.processor]),
                    stopping_criteria=StoppingCriteriaList([watch]),
                )
        finally:
            self.model.generation_config = saved_config
        progress.record(range(len(rows)), watch.processor.drawn)
        return progress.samples()


class _Draw(LogitsProcessor):  # type: ignore[misc]
    """Keeps the drawn token of each row and forbids all others."""

    def __init__(self, rows: Sequence[GenerationRequest], device: torch.device) -> None:
        self.sampler = Sampler([row.sampling for row in rows])
        max_tokens = max(row.sampling.max_tokens for row in rows)
        self.uniform = uniform_table([row.seed for row in rows], max_tokens, device)
        self.drawn: list[Tensor] = []

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        """Scores (R, V) of the next token."""
        del input_ids
        ids, *logprobs = self.sampler.draw(scores.float(), self.uniform[len(self.drawn) // 2])
        self.drawn += logprobs
        return torch.full_like(scores, float("-inf")).scatter_(1, ids[:, None], 0.0)


class _Watch(StoppingCriteria):  # type: ignore[misc]
    """Tells the library which rows have ended, by the same rules as the own engine."""

    def __init__(self, progress: Progress, device: torch.device) -> None:
        self.progress = progress
        self.device = device
        self.processor = _Draw(progress.rows, device)

    def __call__(self, input_ids: Tensor, scores: Tensor, **kwargs: Any) -> Tensor:
        """Input ids (R, so far), the token just drawn included."""
        del scores, kwargs
        self.progress.take(range(len(input_ids)), input_ids[:, -1].tolist())
        return torch.tensor([finish is not None for finish in self.progress.finish], device=self.device)
