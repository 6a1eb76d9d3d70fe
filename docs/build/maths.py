"""The computed table of `docs/maths.md`, from the results kept in `docs/runs/maths`."""

from __future__ import annotations

from pathlib import Path

from palaver.benchmarks.experiments.reasoning.results import load
from palaver.benchmarks.experiments.reasoning.table import markdown


def parts(kept_runs: Path) -> dict[str, str]:
    """Return the table as Markdown.

    Raises:
        CheckpointError: there are no stored results.
    """
    return {"table": markdown(load(kept_runs / "maths"))}
