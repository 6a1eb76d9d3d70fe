"""Computed tables of docs/inference.md: kept runs of `kuhn-infer`, `build-orders` and hidden profiles."""

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
PROFILE_KEYS = ("majority", "final", "initial", "mentioned")
PROFILE_NAMES = ("majority right", "final votes right", "first votes right", "hidden facts said")
PROFILE_HEAD = (
    "run",
    *(f"{name}: before, after" for name in PROFILE_NAMES),
    "return after, of 2",
    "CPU seconds",
)
HEAD = ("seed", *(f"{name}: before, after" for name in NAMES), "CPU seconds")


def parts(kept_runs: Path) -> dict[str, str]:
    """Name -> Markdown of each table."""
    files = sorted((kept_runs / "infer" / "kuhn").glob("*/metrics.jsonl"))
    rows = [_row(file) for file in files]
    return {
        "bayes": markdown_table(HEAD, rows, (DIGITS,) * len(HEAD)) if rows else "No run is kept yet.",
        "profile": _profiles(kept_runs / "infer" / "profile"),
        "orders": orders.table(read(kept_runs / "infer" / "orders" / "runs.jsonl")),
    }


def _profiles(folder: Path) -> str:
    """Table of the runs of hidden profiles, single agents and teams."""
    rows = []
    for file in sorted(folder.glob("*/metrics.jsonl")):
        records = _records(file)
        first, *_, last = (record for record in records if record["kind"] == "eval")
        pairs = [f"{first['metrics'][key]:.3f}, {last['metrics'][key]:.3f}" for key in PROFILE_KEYS]
        interval = f"{last['mean']:.3f} [{last['low']:.3f}, {last['high']:.3f}]"
        rows.append((file.parent.name, *pairs, interval, f"{last['cpu_s']:.0f}"))
    return markdown_table(PROFILE_HEAD, rows, (DIGITS,) * len(PROFILE_HEAD)) if rows else "No run is kept yet."


def _records(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def _row(file: Path) -> tuple[str, ...]:
    records = _records(file)
    first, *_, last = (record for record in records if record["kind"] == "eval")
    gaps = [f"{first[key]:.3f}, {last[key]:.3f}" for key in KEYS]
    return (file.parent.name.rpartition("-")[2], *gaps, f"{last['cpu_s']:.0f}")
