"""The processes of a run, through accelerate. One process is the ordinary case and pays nothing for it.

Several processes (`accelerate launch --num_processes 2 -m palaver train ...`) hold equal weights: tasks are dealt out,
gradients are summed in one flat message per policy, and all step alike.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Any, Literal, TypeVar

import torch
from accelerate import Accelerator
from accelerate.state import AcceleratorState
from accelerate.utils import broadcast_object_list, gather_object
from torch import Tensor

from palaver.core import usable_cores

S = TypeVar("S")
T = TypeVar("T")


class World:
    """Device, precision and the sums over processes.

    Args:
        device: `auto` takes what accelerate finds.
        dtype: `bf16` runs the training pass under autocast; weights, gradients and optimiser stay fp32.
        cores: it may use; None takes all that the process may.
    """

    def __init__(self, device: str, dtype: Literal["fp32", "bf16"], cores: int | None = None) -> None:
        AcceleratorState._reset_state()  # a second run in one process may want another precision
        self.accelerator = Accelerator(cpu=device == "cpu", mixed_precision="bf16" if dtype == "bf16" else "no")
        self.cores = cores
        self.size: int = self.accelerator.num_processes
        self.rank: int = self.accelerator.process_index
        self.is_main: bool = self.accelerator.is_main_process
        self.device = str(self.accelerator.device) if device == "auto" else device

    def autocast(self) -> AbstractContextManager[None]:
        """The precision of the training pass."""
        context: AbstractContextManager[None] = self.accelerator.autocast()
        return context

    def deal(self, items: Sequence[T]) -> list[T]:
        """This process's share, every size-th item."""
        return list(items[self.rank :: self.size])

    def total(self, *numbers: float) -> list[float]:
        """Sums over processes."""
        if self.size == 1:
            return list(numbers)
        summed: Tensor = self.accelerator.reduce(
            torch.tensor(numbers, dtype=torch.float64, device=self.accelerator.device), reduction="sum"
        )
        return summed.tolist()

    def gather(self, items: list[T]) -> list[T]:
        """The lists of all processes joined, in order of rank, on every process."""
        return items if self.size == 1 else list(gather_object(items))

    def at_once(self, function: Callable[[S], T], items: Sequence[S]) -> list[T]:
        """`function` of items that share nothing, on this process, in threads where cores are idle; in their order.

        Each thread computes with as many torch threads as this one, so that the numbers are those of a plain loop.
        Policies with one `host` share a module whose selected adapter is state: they must come one after the other.
        """
        threads = torch.get_num_threads()
        spare = (self.cores or usable_cores()) // threads if self.size == 1 and self.device == "cpu" else 1
        if spare < 2 or len(items) < 2:
            return [function(item) for item in items]
        with ThreadPoolExecutor(spare, initializer=torch.set_num_threads, initargs=(threads,)) as pool:
            return list(pool.map(function, items))

    def share(self, value: T) -> T:
        """The main process's value, on every process."""
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
        for p, part in zip(trained, flat.split([p.numel() for p in trained]), strict=True):
            p.grad = part.view_as(p)

    def clipped_norm(self, parameters: Sequence[torch.nn.Parameter], limit: float) -> float:
        """Sum gradients over processes and clip them to `limit` (0: not at all); their norm before, finite or not."""
        self.sum_gradients(parameters)
        return float(torch.nn.utils.clip_grad_norm_(parameters, limit if limit > 0 else math.inf))

    def wait(self) -> None:
        """Until every process is here."""
        self.accelerator.wait_for_everyone()
