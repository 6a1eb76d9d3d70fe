"""Computed tables of docs/inference.md: kept runs of `kuhn-infer`, `build-orders` and hidden profiles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from palaver.benchmarks.experiments import orders
from palaver.benchmarks.experiments.demo_seeds import read
from palaver.benchmarks.reports.summary import interval
from palaver.markdown import markdown_table

Evaluation = Mapping[str, Any]  # a record of metrics.jsonl
DIGITS = "---:"
KEYS = ("belief/gap", "belief/gap_max", "belief/gap_pooled")
NAMES = ("an answer", "its maximum", "average of answers")
PROFILE_KEYS = ("majority", "final", "initial", "mentioned")
PROFILE_NAMES = ("majority right", "final votes right", "first votes right", "hidden facts shared")
PROFILE_HEAD = (
    "run",
    *(f"{name}: before, after" for name in PROFILE_NAMES),
    "return after, of 2",
    "CPU seconds",
)
GUESS_HEAD = (
    "run",
    "F1 of the guess: before, after",
    "majority right: before, after",
    "final votes right: before, after",
    "return after, without the guess's reward",
    "mean tokens of a completion: before, after",
    "CPU seconds",
)
HEAD = ("seed", *(f"{name}: before, after" for name in NAMES), "CPU seconds")


def parts(kept_runs: Path) -> dict[str, str]:
    """Name -> Markdown of each table."""
    kept = kept_runs / "infer"
    return {
        "bayes": table(HEAD, kept / "kuhn", _row),
        "profile": table(PROFILE_HEAD, kept / "profile", _profile),
        "profile-guesses": table(GUESS_HEAD, kept / "profile-guesses", _profile_guesses),
        "orders": orders.table(read(kept / "orders" / "runs.jsonl")),
    }


def table(head: Sequence[str], folder: Path, row: Callable[[str, Evaluation, Evaluation], tuple[str, ...]]) -> str:
    """Table of the kept runs in a folder, a row from the name and the first and last evaluation of each."""
    rows = []
    for file in sorted(folder.glob("*/metrics.jsonl")):
        first, *_, last = (record for record in read(file) if record["kind"] == "eval")
        rows.append(row(file.parent.name, first, last))
    return markdown_table(head, rows, (DIGITS,) * len(head)) if rows else "No run is kept yet."


def mean(result: Evaluation) -> str:
    """Format a mean and its interval."""
    return f"{result['mean']:.3f} {interval(result['low'], result['high'])}"


def _row(name: str, first: Evaluation, last: Evaluation) -> tuple[str, ...]:
    gaps = [f"{first[key]:.3f}, {last[key]:.3f}" for key in KEYS]
    return (name.rpartition("-")[2], *gaps, f"{last['cpu_s']:.0f}")


def _profile(name: str, first: Evaluation, last: Evaluation) -> tuple[str, ...]:
    shares = _shares(PROFILE_KEYS, first, last)
    return (name, *shares, mean(last), f"{last['cpu_s']:.0f}")


def _profile_guesses(name: str, first: Evaluation, last: Evaluation) -> tuple[str, ...]:
    shares = _shares(("inference/accuracy", "majority", "final"), first, last)
    votes = last["components"]["majority"] + last["components"]["own"]
    tokens = ", ".join(f"{fmean(record['tokens'].values()):.1f}" for record in (first, last))
    return (name, *shares, f"{votes:.3f}", tokens, f"{last['cpu_s']:.0f}")


def _shares(keys: Sequence[str], first: Evaluation, last: Evaluation) -> list[str]:
    """Metrics before and after."""
    return [f"{first['metrics'][key]:.3f}, {last['metrics'][key]:.3f}" for key in keys]
