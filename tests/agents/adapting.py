"""Small teams of adapters for tests."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from peft.tuners.lora import LoraLayer

from palaver.agents.llm.model.load import save_pretrained
from palaver.agents.llm.model.options import LoraOptions, ModelOptions
from palaver.agents.llm.policies.lora_policy import AdapterPolicy, adapted
from palaver.core import Message, Request, Sampling
from tests.models import byte_tokenizer, tiny_qwen3

LORA = LoraOptions(rank=4, alpha=6.0)
NAMES = ("a", "b", "c")


def stored_base(folder: Path, make: Callable[[], Any] = tiny_qwen3) -> str:
    """A model saved in `folder`; made only once."""
    if not folder.exists():
        save_pretrained(make(), byte_tokenizer(), folder)
    return str(folder)


def team_of(
    base: str, names: Sequence[str] = NAMES, lora: LoraOptions = LORA, **options: Any
) -> dict[str, AdapterPolicy]:
    """Adapters on the CPU that are not those they start as, each another."""
    team = adapted(base, names, ModelOptions(**{"device": "cpu", **options}), lora)
    for number, policy in enumerate(team.values()):
        shaken(policy, number)
    return team


def shaken(policy: AdapterPolicy, seed: int, by: float = 0.1) -> None:
    """Add noise to an adapter."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(by * torch.randn(parameter.shape, generator=generator))
    policy.refresh()


def merged(policy: AdapterPolicy, base: Any) -> Any:
    """A plain model with W + (alpha / r) B A in place of W: what the policy must compute as."""
    model = copy.deepcopy(base)
    with torch.no_grad():
        for name, layer in policy.model.named_modules():
            if isinstance(layer, LoraLayer) and policy.key in layer.lora_A:
                shape = policy.shared_engine.lora.config(policy.key)
                down, up = layer.lora_A[policy.key].weight, layer.lora_B[policy.key].weight
                delta = (shape.lora_alpha / shape.r) * (up @ down)
                weight = model.get_submodule(name).weight
                weight += delta if weight.shape == delta.shape and not layer.is_target_conv_1d_layer else delta.t()
    return model


def asks(agents: Sequence[str], texts: Sequence[str] = ("hello", "you there"), seeds: int = 2) -> list[Request]:
    """Every agent asked every text."""
    kinds = (Sampling(max_tokens=16), Sampling(0.8, 0.9, max_tokens=9), Sampling(temperature=0, max_tokens=12))
    return [
        Request(agent, (Message("user", text),), tuple(range(seeds)), kinds[(n + k) % 3])
        for n, agent in enumerate(agents)
        for k, text in enumerate(texts)
    ]


def weights_of(policy: AdapterPolicy) -> list[torch.Tensor]:
    return [parameter.detach().clone() for parameter in policy.parameters()]


def base_weights(policy: AdapterPolicy) -> list[torch.Tensor]:
    return [p.detach().clone() for name, p in policy.model.named_parameters() if "lora_" not in name]


def same(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))
