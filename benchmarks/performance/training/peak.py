"""Peak memory of an update on top of weights, gradients and optimiser state.

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


class PeakMemory:
    """Measures the memory of updates.

    It is the memory allocated by torch on a GPU, elsewhere the resident memory of the process.

    Attributes:
        rises: bytes per update above weights, gradients and optimiser state.
    """

    def __init__(self, device: str) -> None:
        self.cuda = device.startswith("cuda")
        self.rises: list[int] = []

    @property
    def possible(self) -> bool:
        """True on a GPU, or on Linux, whose kernel keeps a high-water mark that can be reset."""
        return self.cuda or (sys.platform == "linux" and _CLEAR.exists())

    @contextmanager
    def update(self, model: Any, optimizer: Any) -> Iterator[None]:
        """Measure the body as one update of `model`.

        The first is skipped, as it creates the optimiser's state. Missing gradients are allocated inside.
        """
        absent = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad and p.grad is None)
        counts, start = bool(optimizer.state), self.start()
        yield
        if counts:
            self.rises.append(self.highest() - start - absent)

    def start(self) -> int:
        """Reset the high-water mark; returns the bytes in use."""
        if self.cuda:
            import torch

            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
            return int(torch.cuda.memory_allocated())
        ctypes.CDLL(None).malloc_trim(0)  # free memory not returned to the system would hide a rise
        _CLEAR.write_text("5")  # proc(5): resets the peak resident set size
        return _kilobytes("VmRSS") * 1024

    def highest(self) -> int:
        """Return the maximum of bytes in use since `start`."""
        if self.cuda:
            import torch

            return int(torch.cuda.max_memory_allocated())
        return _kilobytes("VmHWM") * 1024


def _kilobytes(field: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field))
    return int(line.split()[1])
