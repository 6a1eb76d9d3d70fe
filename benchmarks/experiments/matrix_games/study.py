"""Run a laboratory: worker processes train the unfinished cells.

The table is written even if the work is interrupted.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from palaver.benchmarks.experiments.matrix_games import results
from palaver.benchmarks.experiments.matrix_games.plan import FILE, MatrixGameRun, MatrixGamesPlan
from palaver.benchmarks.experiments.matrix_games.results import OUTCOME, Lab, MatrixGameResult
from palaver.benchmarks.experiments.runner import finished, train_all
from palaver.core import ConfigError, PalaverError
from palaver.utils.machine import usable_cores
from palaver.utils.run_folder import locked, replace_text

Report = Callable[[MatrixGameResult], None]


@dataclass(frozen=True)
class PendingRuns:
    """Unfinished work of a plan in a folder.

    Attributes:
        plan: of the laboratory.
        folder: of the results.
        todo: cells still to be run.
        refused: cell -> reason why it cannot be run.
    """

    plan: MatrixGamesPlan
    folder: Path
    todo: tuple[MatrixGameRun, ...]
    refused: Mapping[MatrixGameRun, str]

    @property
    def workers(self) -> int:
        """Cells that train at the same time."""
        return min(self.plan.lab.cores or usable_cores(), len(self.todo))


def prepare(plan: MatrixGamesPlan, folder: Path) -> PendingRuns:
    """Find the finished cells and those that cannot be run; nothing is written.

    Raises:
        ConfigError: the folder holds a cell with other settings, or no cell can be run.
    """
    todo = [cell for cell in plan.cells if results.read(cell, folder).status != "done" or not finished(cell, folder)]
    refused = refusals(plan)
    if len(refused) == len(plan.cells):
        raise ConfigError(next(iter(refused.values())))
    return PendingRuns(plan, folder, tuple(cell for cell in todo if cell not in refused), refused)


def refusals(plan: MatrixGamesPlan) -> dict[MatrixGameRun, str]:
    """Map cells to the reason why the trainer refuses them; it is the same for all seeds."""
    from palaver.trainers.train import prepare

    errors: dict[tuple[str, str], str] = {}
    for kind, cell in {(cell.algorithm, cell.game): cell for cell in plan.cells}.items():
        try:
            prepare(cell.config)
        except PalaverError as error:
            errors[kind] = str(error)
    return {cell: why for cell in plan.cells if (why := errors.get((cell.algorithm, cell.game)))}


def run(work: PendingRuns, provenance: Mapping[str, Any], report: Report = lambda _: None) -> Lab:
    """Train the unfinished cells and write `lab.yaml` and `lab.json`.

    `lab.json` is written even if the work is interrupted.

    Args:
        work: of `prepare`.
        provenance: of the runs and of the table.
        report: called with each result.

    Raises:
        ConfigError: the folder is in use by another process.
    """
    began = time.perf_counter()
    with locked(work.folder):
        replace_text(work.folder / FILE, work.plan.text)
        launch = {"recipe": str(work.folder / FILE), "overrides": []}
        kept = work.plan.lab.checkpoints
        try:
            for cell, outcome in train_all(
                work.todo, work.folder, work.workers, lambda _: launch, provenance, checkpoints=kept
            ):
                run_folder = work.folder / cell.subfolder
                run_folder.mkdir(parents=True, exist_ok=True)
                replace_text(run_folder / OUTCOME, json.dumps(asdict(outcome)) + "\n")
                report(results.read(cell, work.folder))
        finally:
            minutes = round((time.perf_counter() - began) / 60, 2)
            lab = results.collect(work.plan, work.folder, work.refused, provenance, minutes)
            lab.save(work.folder)
    return lab
