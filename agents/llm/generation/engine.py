"""Generation: one batch for all rows, one prefill per prompt, finished rows leave.

A row is one sample of one prompt. Its tokens depend on its prompt, its `Sampling` and its seed alone (in fp32; a
rounding difference of 1e-7 between batches can in principle move a draw, with about that probability per token).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from palaver.agents.llm.generation.dense_decoder import DenseDecoder
from palaver.agents.llm.generation.forward import Forward, find_forward
from palaver.agents.llm.generation.hf_engine import LibraryEngine
from palaver.agents.llm.generation.kv_cache import KeyValues
from palaver.agents.llm.generation.requests import (
    Adapters,
    GenerationRequest,
    GenerationResult,
    Generator,
    Progress,
    SequentialAdapters,
    in_batches,
    room,
)
from palaver.agents.llm.generation.sampler import Sampler, uniform_table
from palaver.agents.llm.generation.static_decode import Draws, GraphCapture, StaticSteps
from palaver.agents.llm.model.chat_template import Renderer
from palaver.agents.llm.model.inference_copy import InferenceCopy
from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.llm.scoring.logprobs import token_batches
from palaver.agents.llm.scoring.packing import padded
from palaver.core import PalaverWarning, PolicyError

PREFILL_TOKENS = 16384  # most padded prompt tokens in one forward
LEAVING_SHARE = 0.25  # the batch is repacked when this share of its rows has finished
GPU_INTERVAL = 8  # a GPU is queried only every so many steps for the rows that have finished
GRAPH_ROWS = 64  # most rows of a batch whose steps are CUDA graphs; beyond, operations take longer than their launches
GRAPH_STEPS = 32  # fewest steps to come that are worth a capture
GRAPH_LEAVING_SHARE = 0.5  # each repacking needs another capture, and at so few rows a row costs little


class Engine:
    """Draws rows from a model.

    Args:
        forward: the model.
        end_ids: tokens that end a row.
        decode: sampled ids to text, for stop strings.

    Attributes:
        interval: number of steps between two looks at which rows have finished.
        static_rows: most rows of a batch whose steps have a fixed shape (`static_decode.py`).
    """

    def __init__(self, forward: Forward, end_ids: frozenset[int], decode: Callable[[Sequence[int]], str]) -> None:
        self.forward = forward
        self.end_ids = end_ids
        self.decode = decode
        self.interval = 1 if forward.device.type == "cpu" else GPU_INTERVAL
        self.static_rows = GRAPH_ROWS if forward.device.type == "cuda" and isinstance(forward, DenseDecoder) else 0

    @cached_property
    def graphs(self) -> GraphCapture | None:
        """Captures steps as CUDA graphs; None on other devices."""
        return GraphCapture(self.forward.device) if self.forward.device.type == "cuda" else None

    @torch.inference_mode()
    def generate(self, prompts: Sequence[Sequence[int]], rows: Sequence[GenerationRequest]) -> list[GenerationResult]:
        """One sample per row, in order.

        Raises:
            PolicyError: the model's probabilities are not finite.
        """
        capacity = room(self.forward.model.config, self.forward.device, self.forward.dtype)
        return in_batches(prompts, rows, capacity, lambda batch: _Batch(self, prompts, batch).run())

    def refresh(self) -> None:
        """See `Generator.refresh`."""
        self.forward.refresh()

    def leaving_share(self, rows: int) -> float:
        """Share of finished rows at which a batch of so many is repacked."""
        return GRAPH_LEAVING_SHARE if rows <= self.static_rows else LEAVING_SHARE

    def steps(self, store: KeyValues, sampler: Sampler, left: int) -> Callable[[Tensor, Tensor], Draws]:
        """Function that adds a token per row and draws the next.

        It serves at most `left` steps with the rows of now.
        """
        forward = self.forward
        if len(store.padding) <= self.static_rows and left >= GRAPH_STEPS and isinstance(forward, DenseDecoder):
            return StaticSteps(forward, store, sampler, self.graphs)
        return lambda ids, uniform: sampler.draw(forward.step(ids, store), uniform)


class _Batch:
    """The rows that run together."""

    def __init__(self, engine: Engine, prompts: Sequence[Sequence[int]], rows: list[GenerationRequest]) -> None:
        self.engine = engine
        self.rows = rows
        self.prompts = {row.prompt: prompts[row.prompt] for row in self.rows}
        self.adapter = {row.prompt: row.adapter for row in self.rows}
        self.progress = Progress(self.rows, engine.end_ids, engine.decode)
        self.max_tokens = max(row.sampling.max_tokens for row in self.rows)

    def run(self) -> list[GenerationResult]:
        """Decode until every row has finished; samples in the order the rows were given."""
        engine, forward = self.engine, self.engine.forward
        logits, store = self._prefill()
        sampler = Sampler([row.sampling for row in self.rows])
        # drawn up front, (limit, R): a row is independent of the rest of its batch
        uniform = uniform_table([row.seed for row in self.rows], self.max_tokens, forward.device)
        progress = self.progress
        live = list(range(len(self.rows)))  # live[b] is the row at place b of the batch
        advance: Callable[[Tensor, Tensor], Draws] | None = None
        draws = sampler.draw(logits, uniform[0])
        pending: list[Tensor] = []
        drawn: list[Tensor] = []
        for step in range(self.max_tokens):
            ids, logprobs, sample_logprobs = draws
            pending.append(ids)
            drawn += (logprobs, sample_logprobs)
            if len(pending) == engine.interval or step + 1 == self.max_tokens:
                for taken in torch.stack(pending).tolist():
                    progress.take(live, taken)
                pending = []
                keep = [index for index, row in enumerate(live) if progress.finish[row] is None]
                if len(keep) <= (1 - engine.leaving_share(len(live))) * len(live):
                    progress.record(live, drawn)
                    drawn = []
                    if not keep:
                        break
                    kept_rows = torch.tensor(keep, device=forward.device)
                    live = [live[index] for index in keep]
                    ids, uniform = ids[kept_rows], uniform[:, kept_rows]
                    advance = None  # it may hold the memory that is copied next
                    store.select(kept_rows)
                    sampler = Sampler([self.rows[row].sampling for row in live])
            advance = advance or engine.steps(store, sampler, self.max_tokens - step - 1)
            draws = advance(ids, uniform[step + 1])
        return progress.samples()

    def _prefill(self) -> tuple[Tensor, KeyValues]:
        forward = self.engine.forward
        lengths = [len(self.prompts[row.prompt]) for row in self.rows]
        adapters = [row.adapter for row in self.rows]
        store = KeyValues(lengths, max(lengths) + self.max_tokens, forward.device, forward.dtype, adapters)
        by_prompt: dict[int, list[int]] = {}
        for index, row in enumerate(self.rows):
            by_prompt.setdefault(row.prompt, []).append(index)
        logits: Tensor | None = None
        by_length = sorted(self.prompts, key=lambda prompt: len(self.prompts[prompt]))
        for chunk in token_batches(by_length, [len(self.prompts[prompt]) for prompt in by_length], PREFILL_TOKENS):
            texts = [self.prompts[prompt] for prompt in chunk]
            ids = torch.from_numpy(padded(texts)).to(forward.device)
            out, layers = forward.prefill(ids, list(map(len, texts)), [self.adapter[prompt] for prompt in chunk])
            rows = torch.tensor([index for prompt in chunk for index in by_prompt[prompt]], device=forward.device)
            counts = torch.tensor([len(by_prompt[prompt]) for prompt in chunk], device=forward.device)
            sources = torch.arange(len(chunk), device=forward.device).repeat_interleave(counts)
            store.insert(layers, rows, sources)
            if logits is None:
                logits = out.new_empty((len(self.rows), out.shape[1]))
            logits[rows] = out[sources]
        assert logits is not None
        return logits, store


def make_generator(
    model: Any, renderer: Renderer, options: ModelOptions, name: str, adapters: Adapters | None = None
) -> Generator:
    """Build the generation engine: ours if it supports the model, else that of transformers.

    Args:
        model: a causal LM of transformers.
        renderer: of its tokenizer.
        options: `engine` may insist on one; `dtype` is used without adapters only, with them the model keeps its own.
        name: of the policy, for messages.
        adapters: of the model, if requests may use different ones.

    Raises:
        PolicyError: the engine that the options insist on does not support the model.
    """
    if adapters is None:
        dtype = torch.bfloat16 if options.dtype == "bf16" else torch.float32
        return _select_engine(InferenceCopy(model, dtype), renderer, options, name, None)
    inference_copy = InferenceCopy(model, next(model.parameters()).dtype)
    if DenseDecoder.supports(model, adapted=True) or adapters.mixes():
        return _select_engine(inference_copy, renderer, options, name, adapters)
    return SequentialAdapters(_select_engine(inference_copy, renderer, options, name, None), adapters)


def _select_engine(
    inference_copy: InferenceCopy, renderer: Renderer, options: ModelOptions, name: str, adapters: Adapters | None
) -> Generator:
    """Build an engine; with `adapters`, the rows of its batches may use different ones."""
    ends = end_ids(inference_copy.master, renderer)
    if options.engine != "transformers":
        forward, reason = find_forward(inference_copy, adapters)
        if forward is not None:
            return Engine(forward, ends, renderer.text)
        if options.engine == "palaver":
            raise PolicyError(f"engine='palaver' cannot serve {name!r}: {reason}; use engine='auto'")
        warnings.warn(f"{name!r} is generated by transformers, which is slower: {reason}", PalaverWarning, 6)
    return LibraryEngine(inference_copy, ends, renderer.text, adapters)


def end_ids(model: Any, renderer: Renderer) -> frozenset[int]:
    """Return the tokens that end a row, by tokenizer, template and generation config."""
    configured = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    configured_ids = configured if isinstance(configured, (list, tuple)) else [configured]  # none, one or a list
    return frozenset(renderer.end_tokens().union(configured_ids) - {None})
