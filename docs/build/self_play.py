"""Computed tables of docs/self-play.md: kept runs of `hanabi-c3` and `leduc-league`."""

from __future__ import annotations

import functools
import json
from pathlib import Path

from docs.build.guesses import Evaluation, mean, table

# evaluations of the last policy of a run of Hanabi-mini: who it plays with, and in which place
TEAMS = ("own", "p1-reference", "p2-reference", "p1-last_marked", "p2-last_marked")
HANABI_HEAD = (
    "seed",
    "temperature 1: before, after",
    "temperature 0.5, with itself",
    *(f"{agent} is `{bot}`" for bot in ("reference", "last_marked") for agent in ("p1", "p2")),
    "CPU seconds",
)
LEDUC_HEAD = ("seed", "NashConv: before, after", "of the mixture: before, after", "legal", "CPU seconds")


def parts(kept_runs: Path) -> dict[str, str]:
    """Name -> Markdown of each table."""
    return {
        "hanabi": table(HANABI_HEAD, kept_runs / "hanabi", functools.partial(_hanabi, kept_runs / "hanabi")),
        "leduc": table(LEDUC_HEAD, kept_runs / "leduc", _leduc),
    }


def _hanabi(kept: Path, seed: str, first: Evaluation, last: Evaluation) -> tuple[str, ...]:
    scores = [mean(json.loads((kept / seed / f"{team}.json").read_text(encoding="utf-8"))) for team in TEAMS]
    return (seed, f"{first['mean']:.3f}, {last['mean']:.3f}", *scores, f"{last['cpu_s']:.0f}")


def _leduc(seed: str, first: Evaluation, last: Evaluation) -> tuple[str, ...]:
    gaps = [f"{first[key]:.3f}, {last[key]:.3f}" for key in ("nash_conv", "nash_conv/pool")]
    return (seed, *gaps, f"{last['legal_mass']:.3f}", f"{last['cpu_s']:.0f}")
