"""Computed table of docs/inference.md: distances from Bayes in the kept runs of `kuhn-infer`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from palaver.markdown import markdown_table

DIGITS = "---:"
KEYS = ("belief/gap", "belief/gap_max", "belief/gap_pooled")
NAMES = ("an answer", "its maximum", "average of answers")
HEAD = ("seed", *(f"{name}: before, after" for name in NAMES), "CPU seconds")


def parts(kept_runs: Path) -> dict[str, str]:
    """Name -> Markdown of the table."""
    files = sorted((kept_runs / "infer" / "kuhn").glob("*/metrics.jsonl"))
    rows = [_row(file) for file in files]
    return {"bayes": markdown_table(HEAD, rows, (DIGITS,) * len(HEAD)) if rows else "No run is kept yet."}


def _row(file: Path) -> tuple[str, ...]:
    records: list[dict[str, Any]] = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    first, *_, last = (record for record in records if record["kind"] == "eval")
    gaps = [f"{first[key]:.3f}, {last[key]:.3f}" for key in KEYS]
    return (file.parent.name.rpartition("-")[2], *gaps, f"{last['cpu_s']:.0f}")
