"""How much memory an update needs on top of weights, gradients and optimiser state.

This file imports nothing of Palaver: the peer's Python loads it too, so that both sides are measured by the same code.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


class Watch:
    """Measures calls of an update. On a GPU what torch allocated counts, elsewhere the process's resident memory.

    Attributes:
        rises: bytes per update above weights, gradients and optimiser state.
    """

    def __init__(self, device: str) -> None:
        self.cuda = device.startswith("cuda")
        self.rises: list[int] = []

    @property
    def possible(self) -> bool:
        """Whether this machine can tell: a GPU, or Linux, whose kernel keeps a high-water mark that can be reset."""
        return self.cuda or (sys.platform == "linux" and _CLEAR.exists())

    @contextmanager
    def update(self, model: Any, optimizer: Any) -> Iterator[None]:
        """Measure what happens inside as one update of `model`.

        The first is left out, for it makes the optimiser's state. Gradients are made inside if they are not there yet.
        """
        absent = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad and p.grad is None)
        counts, start = bool(optimizer.state), self.start()
        yield
        if counts:
            self.rises.append(self.highest() - start - absent)

    def start(self) -> int:
        """Forget the high-water mark; bytes in use now."""
        if self.cuda:
            import torch

            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            return int(torch.cuda.memory_allocated())
        ctypes.CDLL(None).malloc_trim(0)  # what is free but not returned would hide a rise
        _CLEAR.write_text("5")  # proc(5): resets the peak resident set size
        return _kilobytes("VmRSS") * 1024

    def highest(self) -> int:
        """Most bytes in use since `start`."""
        if self.cuda:
            import torch

            return int(torch.cuda.max_memory_allocated())
        return _kilobytes("VmHWM") * 1024


def _kilobytes(field: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1])
