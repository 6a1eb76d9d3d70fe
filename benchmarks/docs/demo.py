"""The computed parts of docs/demo.md, from the lines kept in docs/runs/demo-seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from palaver.benchmarks.demo_seeds import ACTS, read, table

FILE = "runs.jsonl"
Lines = Sequence[Mapping[str, Any]]


def parts(kept: Path) -> dict[str, str]:
    """Name -> Markdown of every part."""
    lines = read(kept / "demo-seeds" / FILE)
    return {act: f"{table(act, lines)}\n\n{reached(act, lines)}" for act in ACTS}


def reached(act: str, lines: Lines) -> str:
    """How many runs of an act reach its bar, which one is the lowest, and which warm starts and commits they have."""
    runs = [line for line in lines if line["act"] == act]
    bar, floor = ACTS[act].bar, ACTS[act].floor
    lowest = min(runs, key=lambda line: float(line["after"]))
    short = sum(line["after"] < floor for line in runs)
    commits, starts = (
        sorted({str(each) for line in runs for each in _many(line[key])}) for key in ("commit", "warm_start")
    )
    return (
        f"{sum(line['after'] >= bar for line in runs)} of {len(runs)} runs reach {bar:g}, and "
        f"{short or 'none'} {'are' if short > 1 else 'is'} below {floor:g}; the lowest is seed {lowest['seed']} with "
        f"{lowest['after']:.4g} ({lowest['isa']}). Commit {' and '.join(commits)}, warm start {' and '.join(starts)}."
    )


def _many(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else [value]
