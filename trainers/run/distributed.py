"""Distributed training through accelerate; a single process has no overhead.

Several processes (`accelerate launch --num_processes 2 -m palaver train ...`) hold equal weights: tasks are sharded,
gradients are summed in one flat message per policy, and all make the same steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Literal, TypeVar

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import broadcast_object_list, gather_object
from torch import Tensor

from palaver.utils.machine import usable_cores

T = TypeVar("T")


class Distributed:
    """Device, precision and collective operations of the processes.

    Args:
        device: torch device; `auto` takes the one of accelerate.
        dtype: `bf16` runs the training pass under autocast; weights, gradients and optimiser stay fp32.
        cores: number of cores to use; None takes all that the process may.

    Attributes:
        autocast: makes the autocast context of a training pass.
    """

    def __init__(self, device: str, dtype: Literal["fp32", "bf16"], cores: int | None = None) -> None:
        AcceleratorState._reset_state()  # a second run in one process may want another precision
        self.accelerator = Accelerator(cpu=device == "cpu", mixed_precision="bf16" if dtype == "bf16" else "no")
        self.autocast: Callable[[], AbstractContextManager[None]] = self.accelerator.autocast
        self.cores = cores or usable_cores()
        self.size: int = self.accelerator.num_processes
        self.rank: int = self.accelerator.process_index
        self.is_main: bool = self.accelerator.is_main_process
        self.device = str(self.accelerator.device) if device == "auto" else device

    def shard(self, items: Sequence[T]) -> list[T]:
        """Return this process's shard, every size-th item."""
        return list(items[self.rank :: self.size])

    def all_sum(self, *numbers: float) -> list[float]:
        """Sum each number over processes."""
        if self.size == 1:
            return list(numbers)
        summed: Tensor = self.accelerator.reduce(
            torch.tensor(numbers, dtype=torch.float64, device=self.accelerator.device), reduction="sum"
        )
        return summed.tolist()

    def gather(self, items: list[T]) -> list[T]:
        """Concatenate the lists of all processes in order of rank, on every process."""
        return items if self.size == 1 else list(gather_object(items))

    def broadcast(self, value: T) -> T:
        """Broadcast the main process's value to every process."""
        if self.size == 1:
            return value
        box: list[Any] = [value]
        broadcast_object_list(box, from_process=0)
        shared: T = box[0]
        return shared

    def sum_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Replace every gradient by its sum over processes."""
        if self.size == 1:
            return
        trained = [p for p in parameters if p.requires_grad]
        for p in trained:
            p.grad = torch.zeros_like(p) if p.grad is None else p.grad
        flat = torch.cat([p.grad.reshape(-1) for p in trained if p.grad is not None])
        flat = self.accelerator.reduce(flat, reduction="sum")
        for p, gradient in zip(trained, flat.split([p.numel() for p in trained]), strict=True):
            p.grad = gradient.view_as(p)

    def clip_grad_norm(self, parameters: Sequence[torch.nn.Parameter], max_norm: float) -> float:
        """Sum gradients over processes and clip them to `max_norm` (0: off); return the norm before."""
        self.sum_gradients(parameters)
        return float(torch.nn.utils.clip_grad_norm_(parameters, max_norm if max_norm > 0 else math.inf))

    def wait(self) -> None:
        """Wait until all processes have called this."""
        self.accelerator.wait_for_everyone()
