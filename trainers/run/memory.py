"""Estimated memory of a run, before it starts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

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
        activations: of the largest micro-batch, with its logits, and the weights that autocast rounds for it.
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


@dataclass(frozen=True, slots=True)
class DecoderShape:
    """Sizes of a model that its activations depend on.

    Attributes:
        layers: number of layers.
        hidden: width of the hidden states.
        inner: width of the feed-forward layers.
        attention: width of all heads together.
        vocabulary: number of tokens of the vocabulary.
    """

    layers: int
    hidden: int
    inner: int
    attention: int
    vocabulary: int

    @classmethod
    def of(cls, config: Any) -> DecoderShape:
        """Read the sizes from the config of a model of transformers."""
        inner = getattr(config, "intermediate_size", None) or 4 * config.hidden_size
        heads = getattr(config, "num_attention_heads", None) or 1
        attention = heads * (getattr(config, "head_dim", None) or config.hidden_size // heads)
        return cls(config.num_hidden_layers, config.hidden_size, inner, attention, config.vocab_size)


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Numbers of a policy and its model that the memory of a run depends on.

    Attributes:
        model: equal for policies of one model.
        trained: trained parameters of the policy.
        references: weights that its reference alone holds.
        reference_model: model that references share, and its weights; None if there is none.
        weights: bytes of the model's weights and of its copy for generation.
        column: bytes of the keys and values of one token.
        store: bytes that keys and values may have on its device.
        device: type of its device.
        shape: sizes of the model.
    """

    model: str
    trained: int
    references: int
    reference_model: tuple[str, int] | None
    weights: int
    column: int
    store: int
    device: str
    shape: DecoderShape


def model_facts(
    config: RunConfig, policy: LLMPolicy, references: int = 0, shared: nn.Module | None = None
) -> ModelFacts:
    """Read the numbers of a policy and its model.

    Args:
        config: config of the run.
        policy: trained policy.
        references: weights that its reference alone holds.
        shared: model that its reference shares with others.
    """
    dtype = torch.bfloat16 if config.policy.dtype == "bf16" else torch.float32
    model, shape = policy.model, policy.model.config.get_text_config()
    held = next(model.parameters()).dtype
    copied = dtype != held or DenseDecoder.supports(model, adapted=True)
    copy_bytes = dtype.itemsize if copied else 0
    return ModelFacts(
        model=_identity(model),
        trained=sum(p.numel() for p in policy.parameters()),
        references=references,
        reference_model=None if shared is None else (_identity(shared), sum(p.numel() for p in shared.parameters())),
        weights=sum(p.numel() * (p.element_size() + copy_bytes) for p in model.parameters()),
        column=column_bytes(shape, dtype),
        store=store_bytes(policy.device),
        device=policy.device.type,
        shape=DecoderShape.of(shape),
    )


def _identity(model: nn.Module) -> str:
    return f"{os.getpid()}-{id(model)}"


def estimate(
    config: RunConfig,
    policies: Sequence[ModelFacts],
    prompt_tokens: int,
    rows: int,
    critics: int = 0,
    held: int = 0,
    read: int = 0,
) -> MemoryEstimate:
    """Estimate the memory of a run from its config and facts of its trained policies.

    The logits are those of the chunk that the fused log-probability keeps.

    Args:
        config: config of the run.
        policies: facts of the trained policies; a model that several share counts once.
        prompt_tokens: tokens of the longest prompt.
        rows: see `most_rows`.
        critics: number of trained parameters of the critics.
        held: number of other weights that are held and not trained.
        read: tokens of the longest input of a joint critic (`joint_prompt.refuse_long_joint`); that of an own critic is
            no longer than its policy's.
    """
    dtype = torch.bfloat16 if config.policy.dtype == "bf16" else torch.float32
    models = list({policy.model: policy for policy in policies}.values())
    held += reference_weights(policies)
    width = max(read, prompt_tokens + config.policy.max_tokens)
    return MemoryEstimate(
        weights=sum(model.weights for model in models) + 4 * (held + critics),
        optimizer=optimizer_bytes([policy.trained for policy in policies], models[0].device) + 12 * critics,
        cache=max(
            min(rows * (prompt_tokens + config.policy.max_tokens) * model.column, model.store) for model in models
        ),
        activations=max(
            activations(config, model.shape, width, rows, dtype, model.device) + autocast_bytes(model.trained, dtype)
            for model in models
        ),
    )


def reference_weights(policies: Sequence[ModelFacts]) -> int:
    """Number of weights that references hold on their devices; shared models count once."""
    shared = dict(policy.reference_model for policy in policies if policy.reference_model is not None)
    return sum(policy.references for policy in policies) + sum(shared.values())


def activations(config: RunConfig, shape: DecoderShape, width: int, rows: int, dtype: torch.dtype, device: str) -> int:
    """Bytes of the activations of the largest micro-batch.

    Of each token and layer in fp32 16 hidden and 3 feed-forward values, an upper estimate for pre-norm decoders. With
    `dtype` bf16 the pass runs under autocast, which keeps residual sums, norms and rotations in fp32 and rounds the
    inputs of products: 26 bytes for each hidden, 15 for each attention and 8 for each feed-forward value, fitted to the
    peaks of an H200 (`docs/runs/gpu`), which are 86 to 95 % of the estimate. With gradient checkpointing it is 2 hidden
    values.

    Args:
        config: config of the run.
        shape: sizes of the model.
        width: tokens of the longest row.
        rows: rows of a step.
        dtype: of the pass.
        device: type of the device.
    """
    together = min(rows * width, max(width, config.train.pass_tokens(device)))
    if config.train.gradient_checkpointing:
        per_layer = 2 * shape.hidden * dtype.itemsize
    elif dtype == torch.bfloat16:
        per_layer = 26 * shape.hidden + 15 * shape.attention + 8 * shape.inner
    else:
        per_layer = 4 * (16 * shape.hidden + 3 * shape.inner)
    return together * shape.layers * per_layer + _head(together, shape, device)


def optimizer_bytes(trained: Sequence[int], device: str) -> int:
    """Bytes of Adam's two moments and of gradients, given the trained numbers of each policy.

    The policies of one GPU are updated one after the other, so that the gradients of one are there at a time.
    """
    gradients = max(trained) if device == "cuda" else sum(trained)
    return 8 * sum(trained) + 4 * gradients


def autocast_bytes(trained: int, dtype: torch.dtype) -> int:
    """Bytes of the weights that autocast rounds, and keeps until the end of the backward pass."""
    return 2 * trained if dtype == torch.bfloat16 else 0


def _head(tokens: int, shape: DecoderShape, device: str) -> int:
    """Bytes of the head's pass: the softmax kept; on CUDA also a tile and an fp32 gradient."""
    logits = tokens * shape.vocabulary
    kept = min(4 * logits, keep_bytes_on(device))
    return kept + (4 * (min(logits, TILE_CUDA) + shape.vocabulary * shape.hidden) if device == "cuda" else 0)


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
