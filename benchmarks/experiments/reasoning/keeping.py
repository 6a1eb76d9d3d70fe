"""Export of a table: its results, its figure, and the config and metrics of its runs."""

from __future__ import annotations

from pathlib import Path

from palaver.benchmarks.comparison.export import export_run
from palaver.benchmarks.comparison.finished_runs import trial
from palaver.benchmarks.experiments.reasoning.picture import write
from palaver.benchmarks.experiments.reasoning.results import load
from palaver.benchmarks.reports.run_folder import read
from palaver.core import ConfigError


def export_runs(table: Path, folder: Path) -> Path:
    """Export a finished table to a new folder.

    Raises:
        CheckpointError: there is no table, or one of its runs is not finished.
        ConfigError: the folder exists, or cannot be written.
    """
    if folder.exists():
        raise ConfigError(f"--keep: {str(folder)!r} is already there; remove it, or choose another folder")
    found = load(table)
    runs = [trial(read(place)) for place in sorted((table / "runs").glob("*")) if place.is_dir()]
    try:
        folder.mkdir(parents=True)
        for each in runs:
            export_run(each, folder / "runs" / each.run.folder.name)
        found.save(folder)
        write(found, folder)
    except OSError as error:
        raise ConfigError(f"--keep: cannot write {str(error.filename)!r}: {error.strerror}") from error
    return folder
