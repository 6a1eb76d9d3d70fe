"""Computed tables of docs/inference.md: kept runs of `kuhn-infer` and `build-orders`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from palaver.benchmarks.experiments import orders
from palaver.benchmarks.experiments.demo_seeds import read
from palaver.markdown import markdown_table

DIGITS = "---:"
KEYS = ("belief/gap", "belief/gap_max", "belief/gap_pooled")
NAMES = ("an answer", "its maximum", "average of answers")
HEAD = ("seed", *(f"{name}: before, after" for name in NAMES), "CPU seconds")


def parts(kept_runs: Path) -> dict[str, str]:
    """Name -> Markdown of each table."""
    files = sorted((kept_runs / "infer" / "kuhn").glob("*/metrics.jsonl"))
    rows = [_row(file) for file in files]
    return {
        "bayes": markdown_table(HEAD, rows, (DIGITS,) * len(HEAD)) if rows else "No run is kept yet.",
        "orders": orders.table(read(kept_runs / "infer" / "orders" / "runs.jsonl")),
    }


def _row(file: Path) -> tuple[str, ...]:
    records: list[dict[str, Any]] = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    first, *_, last = (record for record in records if record["kind"] == "eval")
    gaps = [f"{first[key]:.3f}, {last[key]:.3f}" for key in KEYS]
    return (file.parent.name.rpartition("-")[2], *gaps, f"{last['cpu_s']:.0f}")
