"""Export of a table: its results, its figure, and the config and metrics of its runs."""

from __future__ import annotations

from pathlib import Path

from palaver.benchmarks.comparison.export import export_run, exporting
from palaver.benchmarks.comparison.finished_runs import trial
from palaver.benchmarks.experiments.reasoning.picture import write
from palaver.benchmarks.experiments.reasoning.results import load
from palaver.benchmarks.reports.run_folder import read


def export_runs(table: Path, folder: Path) -> Path:
    """Export a finished table to a new folder.

    Raises:
        CheckpointError: there is no table, or one of its runs is not finished.
        ConfigError: the folder exists, or cannot be written.
    """
    results = load(table)
    runs = [trial(read(path)) for path in sorted((table / "runs").glob("*")) if path.is_dir()]
    with exporting(folder):
        folder.mkdir(parents=True)
        for run in runs:
            export_run(run, folder / "runs" / run.run.folder.name)
        results.save(folder)
        write(results, folder)
    return folder
