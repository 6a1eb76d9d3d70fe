"""Collective operations in the update of a sharded policy (`placement.shard`).

Each pass of a sharded trunk gathers its weights from all processes. A process with fewer micro-batches than another
makes passes of no weight, else the other would wait for it for ever.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.agents.llm.policies.sharded_policy import ShardedCopy, ShardedPolicy, full, sharded_like
from palaver.agents.llm.scoring.logprobs import response_logprobs
from palaver.core import Sampling
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.update.reference_model import Copy, Reference


class Shards:
    """Passes, gradients and checkpoints of sharded weights.

    Args:
        distributed: the processes.

    Attributes:
        collected: state of the optimiser as one process would save it, on the main process after `collect`.
    """

    def __init__(self, distributed: Distributed) -> None:
        self.distributed = distributed
        self.collected: dict[str, Any] = {}

    def passes(self, model: Any, batches: Iterator[list[int]], sampling: Sampling) -> Iterator[list[int]]:
        """Yield the batches, then make passes of no weight until every process has made as many."""
        own = list(batches)
        size, rank = self.distributed.size, self.distributed.rank
        counts = self.distributed.all_sum(*(float(len(own) * (rank == other)) for other in range(size)))
        yield from own
        for _ in range(int(max(counts)) - len(own)):
            with self.distributed.autocast():
                logp, _ = response_logprobs(model, [[0]], [[0]], sampling)
            if logp.requires_grad:
                self.distributed.accelerator.backward(logp.sum() * 0.0)

    def clip_grad_norm(self, parameters: Sequence[nn.Parameter], max_norm: float) -> float:
        """Sum gradients over processes and clip them to `max_norm` (0: off); return the norm before.

        Those of shards are already sums.
        """
        self.distributed.sum_gradients([p for p in parameters if not isinstance(p, DTensor)])
        gradients = [p.grad for p in parameters if p.grad is not None]
        shards = [gradient.to_local() for gradient in gradients if isinstance(gradient, DTensor)]
        whole = [gradient for gradient in gradients if not isinstance(gradient, DTensor)]
        square = self.distributed.all_sum(_norm(shards) ** 2)[0] + _norm(whole) ** 2
        norm = math.sqrt(square)
        if max_norm > 0 and max_norm < norm < math.inf:
            for gradient in (*shards, *whole):
                gradient.mul_(max_norm / (norm + 1e-6))
        return norm

    def collect(self, policy: LLMPolicy, optimizer: torch.optim.Optimizer, reference: Reference | None) -> None:
        """Gather weights, state of the optimiser and reference on the main process, in host memory."""
        keep = self.distributed.is_main
        assert isinstance(policy, ShardedPolicy)
        policy.collect(keep)
        if isinstance(reference, Copy) and isinstance(reference.frozen, ShardedCopy):
            reference.frozen.collect(keep)
        state = optimizer.state_dict()
        moments = {
            index: {name: _on_host(value) for name, value in values.items()} for index, values in state["state"].items()
        }
        groups = [{**group, "fused": True, "foreach": None} for group in state["param_groups"]]
        self.collected = {"state": moments, "param_groups": groups} if keep else {}

    def spread(self, optimizer: torch.optim.Optimizer) -> None:
        """Keep this process's shards of the state that an optimiser loaded from a checkpoint.

        A fused implementation, as one process has, does not take whole and sharded tensors together.
        """
        for group in optimizer.param_groups:
            group.update(fused=False, foreach=False)
        for parameter, values in optimizer.state.items():
            for name, value in values.items():
                if isinstance(value, Tensor) and value.dim():
                    values[name] = sharded_like(value, parameter)


def _norm(gradients: Sequence[Tensor]) -> float:
    return float(torch.nn.utils.get_total_norm(gradients)) if gradients else 0.0


def _on_host(value: Any) -> Any:
    return full(value).cpu() if isinstance(value, Tensor) else value
