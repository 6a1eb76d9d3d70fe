"""Wall and CPU seconds of a run."""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(slots=True)
class Clock:
    """Wall and CPU seconds of a run, over resumes."""

    wall: float
    cpu: float

    def start(self) -> None:
        """Start or resume counting."""
        self.wall = time.perf_counter() - self.wall
        self.cpu = time.process_time() - self.cpu

    def read(self) -> dict[str, float]:
        """Return the seconds so far."""
        return {"wall_s": round(time.perf_counter() - self.wall, 3), "cpu_s": round(time.process_time() - self.cpu, 3)}
