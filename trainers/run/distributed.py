"""Distributed training through accelerate; a single process has no overhead.

Several processes (`accelerate launch --num_processes 2 -m palaver train ...`) hold equal weights: tasks are sharded,
gradients are summed in messages of about 25 MB, and all make the same steps.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Any, Literal, TypeVar

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import InitProcessGroupKwargs, broadcast_object_list, gather_object
from torch import Tensor

from palaver.utils.machine import usable_cores

T = TypeVar("T")

TIMEOUT = timedelta(hours=2)  # of a collective: the others wait while one process plays its episodes or saves
BUCKET_BYTES = 25 << 20  # of gradients summed in one message


class Distributed:
    """Device, precision and collective operations of the processes.

    Args:
        device: torch device; `auto` takes the one of accelerate, and so does `cuda` where there are several processes:
            each has a GPU of its own.
        dtype: `bf16` runs the training pass under autocast; weights, gradients and optimiser stay fp32.
        cores: number of cores to use; None takes all that the process may.

    Attributes:
        autocast: makes the autocast context of a training pass.
    """

    def __init__(self, device: str, dtype: Literal["fp32", "bf16"], cores: int | None = None) -> None:
        if device.startswith("cuda:") and torch.cuda.is_available():
            torch.cuda.set_device(device)  # else libraries open a context on the first GPU, too
        AcceleratorState._reset_state()  # a second run in one process may want another precision
        self.accelerator = Accelerator(
            cpu=device == "cpu",
            mixed_precision="bf16" if dtype == "bf16" else "no",
            kwargs_handlers=[InitProcessGroupKwargs(timeout=TIMEOUT)],
        )
        self.autocast: Callable[[], AbstractContextManager[None]] = self.accelerator.autocast
        self.cores = cores or usable_cores()
        self.size: int = self.accelerator.num_processes
        self.rank: int = self.accelerator.process_index
        self.is_main: bool = self.accelerator.is_main_process
        own = device == "auto" or (device == "cuda" and self.size > 1)
        self.device = str(self.accelerator.device) if own else device

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
        """Replace every gradient by its sum over processes, in place and bucket by bucket."""
        if self.size == 1:
            return
        gradients = []
        for p in parameters:
            if p.requires_grad:
                p.grad = torch.zeros_like(p) if p.grad is None else p.grad
                gradients.append(p.grad)
        for bucket in buckets(gradients, BUCKET_BYTES):
            if len(bucket) == 1 and bucket[0].is_contiguous():
                torch.distributed.all_reduce(bucket[0])
                continue
            flat = torch.cat([gradient.reshape(-1) for gradient in bucket])
            torch.distributed.all_reduce(flat)
            sums = torch.split(flat, [gradient.numel() for gradient in bucket])
            for gradient, summed in zip(bucket, sums, strict=True):
                gradient.copy_(summed.view_as(gradient))

    def clip_grad_norm(self, parameters: Sequence[torch.nn.Parameter], max_norm: float) -> float:
        """Sum gradients over processes and clip them to `max_norm` (0: off); return the norm before."""
        self.sum_gradients(parameters)
        return float(torch.nn.utils.clip_grad_norm_(parameters, max_norm if max_norm > 0 else math.inf))

    def wait(self) -> None:
        """Wait until all processes have called this."""
        self.accelerator.wait_for_everyone()


def buckets(gradients: Sequence[Tensor], most_bytes: int) -> Iterator[list[Tensor]]:
    """Yield neighbours of one dtype and device, of at most `most_bytes` or one larger."""
    bucket: list[Tensor] = []
    held = 0
    for gradient in gradients:
        alike = not bucket or (gradient.dtype, gradient.device) == (bucket[0].dtype, bucket[0].device)
        if bucket and (not alike or held + gradient.nbytes > most_bytes):
            yield bucket
            bucket, held = [], 0
        bucket.append(gradient)
        held += gradient.nbytes
    if bucket:
        yield bucket
