"""Computed table of docs/inference.md: distances from Bayes in the kept runs of `kuhn-infer`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from palaver.markdown import markdown_table

DIGITS = "---:"
HEAD = ("seed", "before training", "after", "maximum before", "maximum after", "CPU seconds")


def parts(kept_runs: Path) -> dict[str, str]:
    """Name -> Markdown of the table."""
    files = sorted((kept_runs / "infer" / "kuhn").glob("*/metrics.jsonl"))
    rows = [_row(file) for file in files]
    return {"bayes": markdown_table(HEAD, rows, (DIGITS,) * len(HEAD)) if rows else "No run is kept yet."}


def _row(file: Path) -> tuple[str, ...]:
    records: list[dict[str, Any]] = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    first, *_, last = (record for record in records if record["kind"] == "eval")
    gaps = [f"{record[key]:.3f}" for key in ("belief/gap", "belief/gap_max") for record in (first, last)]
    return (file.parent.name.rpartition("-")[2], *gaps, f"{last['cpu_s']:.0f}")
