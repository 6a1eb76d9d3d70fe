"""A language model whose weights are sharded over processes by FSDP2 (`fully_shard`).

Every layer of the trunk is sharded for itself; embedding and head are whole on each process, so that the head computes
only the logits that are wanted. Every pass of the trunk is a collective operation: all processes make equally many.
Answers are drawn from a whole copy in the dtype of generation, which each process holds and `refresh` renews.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from palaver.agents.llm.generation.requests import Generator
from palaver.agents.llm.model.inference_copy import FrozenCopy, InferenceCopy
from palaver.agents.llm.model.load import quiet
from palaver.agents.llm.policies.llm_policy import LLMPolicy, generator_of
from palaver.agents.llm.scoring.split_head import split_head
from palaver.core import PolicyError


def shard(model: Any, size: int) -> None:
    """Shard the trunk of a model over `size` processes, in place; gradients are summed.

    Raises:
        PolicyError: the model has no trunk of layers and no head apart from it.
    """
    parts = split_head(model)
    if parts is None or not _layers(parts.trunk):
        raise PolicyError(
            f"placement.shard=fsdp2 shards a trunk of layers under a linear head, and {type(model).__name__} is not "
            "made so: set placement.shard=none"
        )
    _ = parts.packs  # tried now: later passes must be as many on every process
    mesh = init_device_mesh(model.device.type, (size,))
    whole = {model.get_input_embeddings().weight, *parts.head.parameters()}
    for module in (*_layers(parts.trunk), parts.trunk):
        sharded = fully_shard(module, mesh=mesh, ignored_params=whole)
        sharded.set_gradient_divide_factor(1.0)  # weights of rows are of the rows of all processes
        sharded.set_force_sum_reduction_for_comms(True)


def reshard(model: nn.Module) -> None:
    """Free the gathered weights that a pass left."""
    for module in model.modules():
        if isinstance(module, FSDPModule):
            module.reshard()


def full(value: Any) -> Any:
    """The whole of a sharded tensor, a collective operation; others as they are."""
    return value.full_tensor().detach() if isinstance(value, DTensor) else value


def sharded_like(value: Tensor, like: Tensor) -> Tensor:
    """This process's shard of a whole tensor, if `like` is sharded."""
    if not isinstance(like, DTensor):
        return value
    mesh: DeviceMesh = like.device_mesh
    return distribute_tensor(value.to(like.device), mesh, like.placements, src_data_rank=None)


@torch.no_grad()
def full_weights(model: nn.Module) -> dict[str, Tensor]:
    """Whole weights by name in host memory, tied ones once; a collective operation."""
    reshard(model)
    return {name: full(parameter).cpu() for name, parameter in model.named_parameters()}


@torch.no_grad()
def take_full(model: nn.Module, weights: Mapping[str, Tensor]) -> None:
    """Copy whole weights into a sharded model."""
    for name, parameter in model.named_parameters():
        parameter.copy_(sharded_like(weights[name].to(parameter.dtype), parameter))


def _layers(trunk: Any) -> list[nn.Module]:
    """Layers of a trunk, in order."""
    count = trunk.config.get_text_config().num_hidden_layers
    lists = [module for module in trunk.children() if isinstance(module, nn.ModuleList) and len(module) == count]
    return list(lists[0]) if len(lists) == 1 else []


class ShardedPolicy(LLMPolicy):
    """A policy whose weights are sharded over processes; see `LLMPolicy`.

    Args:
        policy: policy with whole weights on every process, which this one takes over and shards.
        size: number of processes.

    Attributes:
        whole: the copy that answers are drawn from.
        collected: whole fp32 weights in host memory, as `collect` left them.
    """

    def __init__(self, policy: LLMPolicy, size: int) -> None:
        dtype = torch.bfloat16 if policy.options.dtype == "bf16" else torch.float32
        model = policy.model
        own = InferenceCopy(model, dtype).model
        self.whole: Any = copy.deepcopy(model).eval() if own is model else own
        self.whole.requires_grad_(False)
        self.collected: dict[str, Tensor] = {}
        self.size = size
        shard(model, size)
        super().__init__(model, policy.tokenizer, policy.options, policy.name)
        self.version = policy.version

    @contextmanager
    def active(self) -> Iterator[Any]:
        """See `LLMPolicy.active`."""
        try:
            yield self.model
        finally:
            reshard(self.model)

    @torch.no_grad()
    def refresh(self) -> None:
        """See `LLMPolicy.refresh`; a collective operation, one weight at a time."""
        reshard(self.model)
        for ours, trained in zip(self.whole.parameters(), self.model.parameters(), strict=True):
            ours.copy_(full(trained))
        super().refresh()

    def freeze(self, device: torch.device | None = None) -> FrozenCopy:  # noqa: ARG002 - it is where its policy is
        """See `LLMPolicy.freeze`: a sharded copy."""
        return ShardedCopy(self)

    def collect(self, keep: bool) -> None:
        """Gather the weights that `save` writes, a collective operation, and `keep` them or not."""
        weights = full_weights(self.model)
        self.collected = weights if keep else {}

    def save(self, folder: Path | str) -> None:
        """Write model and tokenizer as `LLMPolicy.save`, with what `collect` gathered."""
        if not self.collected:
            raise PolicyError(f"the shards of {self.name!r} were not collected before they are saved")
        weights, self.collected = self.collected, {}
        with quiet():
            self.whole.save_pretrained(folder, state_dict=weights)
            self.tokenizer.save_pretrained(folder)

    def _generator(self) -> Generator:
        return generator_of(self.whole, self._renderer, self.options, self.name)


class ShardedCopy:
    """A sharded copy without gradients; see `FrozenCopy`.

    Attributes:
        collected: whole weights in host memory, as `collect` left them.
    """

    def __init__(self, policy: ShardedPolicy) -> None:
        self.policy = policy
        # of the whole copy's make; its weights may be of less precision than the policy's
        self.model: Any = copy.deepcopy(policy.whole).float().requires_grad_(False)
        shard(self.model, policy.size)
        self.collected: dict[str, Tensor] = {}
        self.take()

    @contextmanager
    def active(self) -> Iterator[Any]:
        """See `FrozenCopy.active`."""
        try:
            yield self.model
        finally:
            reshard(self.model)

    @torch.no_grad()
    def take(self) -> None:
        """Copy the policy's present weights, shard by shard."""
        reshard(self.policy.model)
        reshard(self.model)
        for ours, trained in zip(self.model.parameters(), self.policy.model.parameters(), strict=True):
            ours.copy_(trained)

    def collect(self, keep: bool) -> None:
        """Gather the weights of `state_dict`, a collective operation, and `keep` them or not."""
        weights = full_weights(self.model)
        self.collected = weights if keep else {}

    def state_dict(self) -> dict[str, Tensor]:
        """Weights that `collect` gathered, else those of this process's shards."""
        return self.collected or {
            name: parameter.to_local() if isinstance(parameter, DTensor) else parameter
            for name, parameter in self.model.named_parameters()
        }

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        """Restore whole weights."""
        reshard(self.model)
        take_full(self.model, state)
