"""Computed tables of docs/self-play.md: kept runs of `hanabi-c3` and evaluations of their last policies."""

from __future__ import annotations

import json
from pathlib import Path

from palaver.benchmarks.experiments.demo_seeds import read
from palaver.markdown import markdown_table

# who it plays with, and in which place
TEAMS = ("own", "p1-reference", "p2-reference", "p1-last_marked", "p2-last_marked")
HEAD = (
    "seed",
    "temperature 1: before, after",
    "temperature 0.5, with itself",
    *(f"{agent} is `{bot}`" for bot in ("reference", "last_marked") for agent in ("p1", "p2")),
    "CPU seconds",
)


def parts(kept_runs: Path) -> dict[str, str]:
    """Name -> Markdown of each table."""
    rows = [_row(folder.parent) for folder in sorted((kept_runs / "hanabi").glob("*/metrics.jsonl"))]
    return {"hanabi": markdown_table(HEAD, rows, ("---:",) * len(HEAD)) if rows else "No run is kept yet."}


def _row(folder: Path) -> tuple[str, ...]:
    first, *_, last = (record for record in read(folder / "metrics.jsonl") if record["kind"] == "eval")
    found = [json.loads((folder / f"{team}.json").read_text(encoding="utf-8")) for team in TEAMS]
    scores = [f"{each['mean']:.3f} [{each['low']:.3f}, {each['high']:.3f}]" for each in found]
    return (folder.name, f"{first['mean']:.3f}, {last['mean']:.3f}", *scores, f"{last['cpu_s']:.0f}")
