"""Memory on each GPU for every kind of team, from a model's config alone.

A trained number takes 4 bytes of weight, 4 of gradient and 8 of Adam's moments in fp32, and the copy that generation
computes with 2 more in bf16 (4 in fp32): 18 bytes; a reference of the KL penalty 4 more. Of several policies on one GPU
one has gradients at a time. A frozen base under adapters takes 2 and the copy 2 in bf16. Weights sharded over n GPUs
(`placement.shard=fsdp2`) take 16 / n, and whole copies in the dtype of generation, one to take the weights over and one
that is folded. A sampler apart (`placement.samplers`) has 4 and the copy once more, with all keys and values.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.pytorch_utils import Conv1D

from palaver.agents.llm.generation.dense_decoder import DenseDecoder
from palaver.agents.llm.generation.requests import column_bytes
from palaver.agents.llm.model.load import is_adapter, quiet
from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.config.run import RunConfig
from palaver.trainers.run.memory import (
    GIB,
    DecoderShape,
    MemoryEstimate,
    activations,
    autocast_bytes,
    most_rows,
    optimizer_bytes,
)


def model_shape(source: str) -> Any | None:
    """Model on the meta device; None if its config is not on this machine."""
    folder = os.path.expanduser(source)
    if is_adapter(source):
        return None
    try:
        with quiet():
            shape = AutoConfig.from_pretrained(folder if Path(folder).is_dir() else source, local_files_only=True)
            with torch.device("meta"):
                return AutoModelForCausalLM.from_config(shape)
    except (OSError, ValueError):
        return None


SHARDED_OVER = (2, 8)  # GPUs


@dataclass(frozen=True, slots=True)
class TeamWork:
    """Work of a run that its memory depends on.

    Attributes:
        agents: number of trained agents.
        rows: most completions of one agent in one step.
        prompt_tokens: most tokens of a prompt.
        critic: critics with trunks of their own: `own`, one of each policy, `joint`, one of the team, or neither.
        shards: True if a run of these settings may have sharded weights.
    """

    agents: int
    rows: int
    prompt_tokens: int
    critic: str = "none"
    shards: bool = True


def team_work(config: RunConfig, algorithm: Algorithm, agents: int, turns: int, shards: bool = True) -> TeamWork:
    """Work of a run of `agents` trained agents; prompts are as long as they may be."""
    critic = algorithm.estimator if config.critic.model == "separate" else "none"
    return TeamWork(agents, most_rows(config, 1, agents, turns), config.policy.max_prompt_tokens, critic, shards)


def memory_plan(config: RunConfig, model: Any, work: TeamWork) -> dict[str, MemoryEstimate]:
    """Memory of one GPU for each kind of team.

    Args:
        config: config of the run; its own `team.kind` is one of the rows.
        model: all agents' model, on any device.
        work: see `TeamWork`.

    Returns:
        Name of the placement -> estimate. Agents on one GPU are trained and generate in turn where their models are
        separate, and in one batch where they share one.
    """
    dtype = torch.bfloat16 if config.policy.dtype == "bf16" else torch.float32
    numbers = sum(p.numel() for p in model.parameters())
    adapter = adapter_numbers(model, config)
    folds = DenseDecoder.supports(model)
    copy_bytes = dtype.itemsize if folds or dtype != torch.float32 else 0
    reference = 4 if config.kl.coef > 0 else 0
    trunk = numbers - (0 if _tied(model) else model.get_output_embeddings().weight.numel())

    def estimate(models: int, sharing: int) -> MemoryEstimate:
        critics = trunk * {"own": models, "joint": 1}.get(work.critic, 0)
        return MemoryEstimate(
            weights=models * numbers * (4 + copy_bytes + reference) + 4 * critics,
            optimizer=optimizer_bytes([numbers] * models, "cuda") + 12 * critics,
            cache=_cache(config, model, work, sharing, dtype),
            activations=_activations(config, model, work, sharing, dtype) + autocast_bytes(numbers, dtype),
        )

    base = numbers * dtype.itemsize * (2 if folds else 1)
    critic_adapters = {"own": work.agents, "joint": 1}.get(work.critic, 0)
    lora = MemoryEstimate(
        weights=base + work.agents * adapter * (4 + reference) + 4 * critic_adapters * adapter,
        optimizer=optimizer_bytes([adapter] * work.agents, "cuda") + 12 * adapter * critic_adapters,
        cache=_cache(config, model, work, work.agents, dtype),
        activations=_activations(config, model, work, 1, dtype),
    )
    plan = {
        "separate, all agents on one GPU": estimate(work.agents, 1),
        "separate, a GPU for each agent": estimate(1, 1),
        "shared": estimate(1, work.agents),
        "lora": lora,
    }
    for size in SHARDED_OVER if work.shards else ():
        plan[f"separate, fsdp2 over {size} GPUs"] = _sharded(config, model, work, size, dtype, reference)
    if config.placement.apart:
        kind = config.team.kind if config.team.kind in plan else "separate, a GPU for each agent"
        adapters = base + work.agents * adapter * 4
        copied = adapters if config.team.kind == "lora" else numbers * (4 + copy_bytes)
        plan[f"{kind}: a learner"] = replace(plan[kind], cache=0)
        plan[f"{kind}: its sampler apart"] = MemoryEstimate(copied, 0, plan[kind].cache, 0)
    return plan


def _sharded(
    config: RunConfig, model: Any, work: TeamWork, size: int, dtype: torch.dtype, reference: int
) -> MemoryEstimate:
    """Memory of each of `size` GPUs over which the policies of all agents are sharded.

    Embedding and head are whole, and two layers are gathered at a time.
    """
    numbers = sum(p.numel() for p in model.parameters())
    ends = {model.get_input_embeddings().weight, model.get_output_embeddings().weight}
    whole = sum(weight.numel() for weight in ends)
    held = whole + math.ceil((numbers - whole) / size)
    gathered = 2 * 4 * (numbers - whole) // model.config.get_text_config().num_hidden_layers
    copies = dtype.itemsize * (2 if DenseDecoder.supports(model) else 1)
    part = replace(work, rows=math.ceil(work.rows / size))
    return MemoryEstimate(
        weights=work.agents * (held * (4 + reference) + numbers * copies) + gathered,
        optimizer=optimizer_bytes([held] * work.agents, "cuda"),
        cache=_cache(config, model, part, 1, dtype),
        activations=_activations(config, model, part, 1, dtype),
    )


def adapter_numbers(model: Any, config: RunConfig) -> int:
    """Number of weights of one adapter: rank x (inputs + outputs) of every layer that has one."""
    targets = config.team.lora.targets
    head = model.get_output_embeddings()
    sizes = [
        sum(module.weight.shape)
        for name, module in model.named_modules()
        if isinstance(module, (nn.Linear, Conv1D)) and module is not head and _is_target(name, targets)
    ]
    return config.team.lora.rank * sum(sizes)


def _is_target(name: str, targets: str | Sequence[str]) -> bool:
    """As peft chooses layers by the ends of their names."""
    wanted = [targets] if isinstance(targets, str) else targets
    return targets == "all-linear" or any(name == end or name.endswith(f".{end}") for end in wanted)


def _tied(model: Any) -> bool:
    return model.get_output_embeddings().weight is model.get_input_embeddings().weight


def _cache(config: RunConfig, model: Any, work: TeamWork, sharing: int, dtype: torch.dtype) -> int:
    columns = sharing * work.rows * (work.prompt_tokens + config.policy.max_tokens)
    return columns * column_bytes(model.config, dtype)


def _activations(config: RunConfig, model: Any, work: TeamWork, sharing: int, dtype: torch.dtype) -> int:
    width = work.prompt_tokens + config.policy.max_tokens
    shape = DecoderShape.of(model.config.get_text_config())
    return activations(config, shape, width, sharing * work.rows, dtype, "cuda")


def lines(config: RunConfig, source: str, work: TeamWork) -> list[str]:
    """Describe the memory of each kind of team; one line where no config is at hand."""
    model = model_shape(source)
    if model is None:
        return [f"memory per GPU: not known, as the config of {source} is not on this machine"]
    numbers = sum(p.numel() for p in model.parameters())
    plan = memory_plan(config, model, work)
    width = max(map(len, plan))
    return [
        f"memory per GPU, estimated: {numbers:,} numbers in {source}, {config.policy.dtype}, {work.agents} agents, "
        f"prompts of up to {work.prompt_tokens} tokens",
        *(f"  {name:<{width}}  {estimate.total / GIB:7.2f} GiB  {estimate.parts()}" for name, estimate in plan.items()),
    ]
