"""Estimated memory of a run, before it starts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from palaver.agents.llm.generation.dense_decoder import DenseDecoder
from palaver.agents.llm.generation.requests import column_bytes, store_bytes
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.llm.scoring.fused_logprobs import TILE_CUDA, keep_bytes_on
from palaver.trainers.config.run import RunConfig
from palaver.trainers.run.errors import DeviceMemoryError

GIB = 1024**3


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes on the device, for all policies together.

    Attributes:
        weights: fp32 weights, the references', the critics', and the copies for generation (in bf16, or folded).
        optimizer: fp32 gradients and Adam's two moments, the critics' too.
        cache: keys and values of the largest generation batch.
        activations: of the largest micro-batch, with its logits.
    """

    weights: int
    optimizer: int
    cache: int
    activations: int

    @property
    def total(self) -> int:
        """Generation and training take turns, so the larger of their buffers counts."""
        return self.weights + self.optimizer + max(self.cache, self.activations)

    def __str__(self) -> str:
        return f"{self.total / GIB:.2f} GiB ({self.parts()})"

    def parts(self) -> str:
        """The terms in GiB."""

        def gib(value: int) -> str:
            return f"{value / GIB:.2f}"

        return (
            f"weights {gib(self.weights)}, gradients and Adam {gib(self.optimizer)}, "
            f"keys and values {gib(self.cache)}, activations {gib(self.activations)}"
        )


def most_rows(config: RunConfig, sharing: int, agents: int, turns: int) -> int:
    """Maximum completions of one step that one policy is trained on, over turns and its agents.

    Args:
        config: config of the run.
        sharing: number of agents that share the policy.
        agents: number of agents of the team.
        turns: turns of an episode.
    """
    a = config.algorithm
    joint = a.group_size**agents if a.joint == "cross" else a.group_size
    branches, completions = 1, 0
    for turn in range(turns):
        wide = a.turns != "independent" or turn == 0
        completions += branches * (a.group_size if wide else 1)
        if a.turns in ("tree", "independent"):  # else one branch goes on
            branches *= joint if wide else 1
    return sharing * config.train.prompts_per_step * completions


def estimate(
    config: RunConfig,
    policies: Sequence[LLMPolicy],
    prompt_tokens: int,
    rows: int,
    critics: int = 0,
    reference_weights: int = 0,
    read: int = 0,
) -> MemoryEstimate:
    """Estimate the memory of a run from its config and its trained policies.

    Activations are taken as 16 hidden and 3 feed-forward values per token and layer (2 with gradient checkpointing), an
    upper estimate for pre-norm decoders; the logits as the chunk that the fused log-probability keeps.

    Args:
        config: config of the run.
        policies: trained policies; a base shared by adapters counts once.
        prompt_tokens: tokens of the longest prompt.
        rows: see `most_rows`.
        critics: number of trained parameters of the critics (`Critic.parameters`).
        reference_weights: number of weights of the references (`reference_model.held`).
        read: tokens of the longest input of a joint critic (`joint_prompt.refuse_long_joint`); that of an own critic is
            no longer than its policy's.
    """
    dtype = torch.bfloat16 if config.policy.dtype == "bf16" else torch.float32
    models = list({id(policy.model): policy.model for policy in policies}.values())
    trained = critics + sum(p.numel() for policy in policies for p in policy.parameters())
    return MemoryEstimate(
        weights=sum(_weights(model, dtype) for model in models) + 4 * (reference_weights + critics),
        optimizer=12 * trained,
        cache=max(_cache(config, model, prompt_tokens, rows, dtype) for model in models),
        activations=max(_activations(config, model, prompt_tokens, rows, dtype, read) for model in models),
    )


def _weights(model: Any, dtype: torch.dtype) -> int:
    """Bytes of a model's weights and of its copy for generation (of another dtype, or folded)."""
    held = next(model.parameters()).dtype
    copied = dtype != held or DenseDecoder.supports(model, adapted=True)
    copy_bytes = dtype.itemsize if copied else 0
    return sum(p.numel() * (p.element_size() + copy_bytes) for p in model.parameters())


def _cache(config: RunConfig, model: Any, prompt_tokens: int, rows: int, dtype: torch.dtype) -> int:
    needed = rows * (prompt_tokens + config.policy.max_tokens)
    bytes_each = column_bytes(model.config.get_text_config(), dtype)
    return min(needed * bytes_each, store_bytes(next(model.parameters()).device))


def _activations(config: RunConfig, model: Any, prompt_tokens: int, rows: int, dtype: torch.dtype, read: int) -> int:
    width = max(read, prompt_tokens + config.policy.max_tokens)
    return activations(config, model.config.get_text_config(), width, rows, dtype, next(model.parameters()).device.type)


def activations(config: RunConfig, shape: Any, width: int, rows: int, dtype: torch.dtype, device: str) -> int:
    """Bytes of the activations of the largest micro-batch; see `estimate`.

    Args:
        config: config of the run.
        shape: config of the model.
        width: tokens of the longest row.
        rows: rows of a step.
        dtype: of the pass.
        device: type of the device.
    """
    layers, hidden = shape.num_hidden_layers, shape.hidden_size
    together = min(rows * width, max(width, config.train.pass_tokens(device)))
    inner = getattr(shape, "intermediate_size", None) or 4 * hidden
    per_layer = 2 * hidden if config.train.gradient_checkpointing else 16 * hidden + 3 * inner
    total: int = together * layers * per_layer * dtype.itemsize + _head(together, shape, device)
    return total


def _head(tokens: int, shape: Any, device: str) -> int:
    """Bytes of the head's pass: the softmax kept; on CUDA also a tile and an fp32 gradient."""
    vocabulary, hidden = int(shape.vocab_size), int(shape.hidden_size)
    logits = tokens * vocabulary
    kept = min(4 * logits, keep_bytes_on(device))
    return kept + (4 * (min(logits, TILE_CUDA) + vocabulary * hidden) if device == "cuda" else 0)


@contextmanager
def memory_advice(config: RunConfig, when: str) -> Iterator[None]:
    """Turn a lack of memory on the GPU inside into one sentence that names settings to change.

    Args:
        config: config of the run.
        when: as "in training".

    Raises:
        DeviceMemoryError: the memory was not enough.
    """
    try:
        yield
    except torch.OutOfMemoryError as error:
        changes = [f"train.micro_tokens={config.train.pass_tokens('cuda') // 2}"]
        changes += [] if config.train.gradient_checkpointing else ["train.gradient_checkpointing=true"]
        group = config.algorithm.group_size
        changes += [f"algorithm.group_size={group // 2}"] if group > 3 else []
        changes += ["policy.dtype=bf16"] if config.policy.dtype == "fp32" else []
        changes += ["team.kind=lora"] if config.team.kind == "separate" else []
        listed = ", ".join(changes[:-1]) + f" or {changes[-1]}" if changes[1:] else changes[0]
        raise DeviceMemoryError(f"the GPU ran out of memory {when}: start the run again with {listed}") from error
