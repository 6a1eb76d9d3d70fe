"""Acceptance on a GPU in four stages of at most 10 minutes: right, decode, update, step.

Weights are random in Qwen3-0.6B's shape and nothing is fetched. On a CPU the same code runs with a tiny model, and what
needs a GPU is skipped by name.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

import torch

from palaver.agents.llm.model.load import pick_device
from palaver.benchmarks.performance.gpu import decode, right, step, update
from palaver.benchmarks.performance.gpu.record import StageRecord
from palaver.benchmarks.performance.gpu.workload import Workload
from palaver.core import ConfigError
from palaver.utils.provenance import provenance

STAGES: dict[int, Callable[[StageRecord, Workload], None]] = {1: right.run, 2: decode.run, 3: update.run, 4: step.run}
SIZE, CPU_SIZE = "Qwen3-0.6B", "0.1M"


def run(stage: int, out: Path, device: str, log: Callable[[str], None]) -> list[str]:
    """Measure a stage.

    Args:
        stage: 1 to 4.
        out: file of JSON lines.
        device: torch device, or `auto`.
        log: called with a line of text after each measurement.

    Returns:
        Names of the measurements outside of their bounds.

    Raises:
        ConfigError: the file's folder does not exist.
        PolicyError: the device cannot be used.
    """
    if not out.absolute().parent.is_dir():
        raise ConfigError(f"--out: there is no folder {str(out.absolute().parent)!r}")
    place = pick_device(device)
    gpu = place.type == "cuda"
    if str(place) == "cuda":
        place = torch.device("cuda", torch.cuda.current_device())
    record = StageRecord(stage, out, gpu, log)
    with tempfile.TemporaryDirectory(prefix="palaver-gpu-") as folder:
        work = Workload(place, SIZE if gpu else CPU_SIZE, Path(folder))
        record.begin(
            {
                "date": datetime.now(UTC).date().isoformat(),
                "device": torch.cuda.get_device_name(place) if gpu else str(place),
                "model": asdict(work.shape),
                "provenance": provenance(),
            }
        )
        STAGES[stage](record, work)
    return record.failed
