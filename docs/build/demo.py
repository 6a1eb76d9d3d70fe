"""Computed parts of docs/demo.md, from the lines stored in docs/runs/demo-seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from palaver.benchmarks.comparison.finished_runs import trial
from palaver.benchmarks.experiments.demo_seeds import ACTS, read, table
from palaver.benchmarks.reports.run_folder import read as read_run
from palaver.benchmarks.reports.summary import interval
from palaver.markdown import markdown_table

FILE, RECIPE = "runs.jsonl", "arxiv-magrpo"
SEEN = ACTS["writing"].metrics
ILL = "ill_formed_share"
Lines = Sequence[Mapping[str, Any]]


def parts(kept_runs: Path) -> dict[str, str]:
    """Name -> Markdown of every part."""
    lines = read(kept_runs / "demo-seeds" / FILE)
    tables = {act: f"{table(act, lines)}\n\n{reached(act, lines)}" for act in ACTS}
    return tables | {"recipe": seeds(sorted((kept_runs / RECIPE).glob("seed-*")))}


def seeds(folders: Sequence[Path]) -> str:
    """Runs of the writing recipe, a row each: held-out reward, unrewarded metrics, CPU seconds of training.

    Raises:
        CheckpointError: a folder holds no finished run.
    """
    lines, ratios = [], []
    for run in (trial(read_run(folder)) for folder in folders):
        before, after = run.before, run.after
        pairs = [" → ".join(f"{point.line['metrics'][name]:.3f}" for point in (before, after)) for name in SEEN]
        scores = [f"{point.mean:.2f} {interval(point.line['low'], point.line['high'], 2)}" for point in (before, after)]
        lines.append([str(run.config.seed), *scores, *pairs, f"{run.spent('cpu_s'):.0f} s"])
        ratios.append(after.line["metrics"]["characters_ratio"])
    names = [name.removesuffix("_share").replace("_", " ") for name in SEEN]
    markdown = markdown_table(["seed", "before", "after", *names, "CPU time of training"], lines)
    length = f"{min(ratios):.2f} to {max(ratios):.2f} times the background"
    return f"{markdown}\n\nAfter training the method paragraph has {length}, in characters."


def reached(act: str, lines: Lines) -> str:
    """Number of an act's runs that reach its bar, the lowest score, and their warm starts and commits."""
    runs = [line for line in lines if line["act"] == act]
    bar, floor = ACTS[act].bar, ACTS[act].floor
    lowest = min(runs, key=lambda line: float(line["after"]))
    short = sum(line["after"] < floor for line in runs)
    commits, starts = (
        sorted({str(value) for line in runs for value in _many(line[key])}) for key in ("commit", "warm_start")
    )
    return (
        f"{sum(line['after'] >= bar for line in runs)} of {len(runs)} runs reach {bar:g}, and "
        f"{short or 'none'} {'are' if short > 1 else 'is'} below {floor:g}; the lowest is seed {lowest['seed']} with "
        f"{lowest['after']:.4g} ({lowest['isa']}).{_ill(runs)} "
        f"Commit {' and '.join(commits)}, warm start {' and '.join(starts)}."
    )


def _ill(runs: Lines) -> str:
    """The run with the most broken sentences that the reward does not detect, if that is measured."""
    measured = [line for line in runs if ILL in line.get("metrics", {})]
    if not measured:
        return ""
    worst = max(measured, key=lambda line: float(line["metrics"][ILL]))
    return f" Most ill-formed sentences: seed {worst['seed']}, {worst['metrics'][ILL]:.3f} ({worst['isa']})."


def _many(value: object) -> list[object]:
    return list(value) if isinstance(value, list) else [value]
