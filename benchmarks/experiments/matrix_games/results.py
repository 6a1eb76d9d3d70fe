"""Results of a laboratory: every run's return, in a table with each game's exact optimum."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from palaver.benchmarks.experiments.matrix_games.plan import Column, MatrixGameRun, MatrixGamesPlan
from palaver.benchmarks.experiments.runner import results_of
from palaver.benchmarks.reports.run_folder import number
from palaver.trainers.run.files import LAUNCH, METRICS, ended
from palaver.trainers.run.logging import read_metrics
from palaver.utils.run_folder import read_record, replace_text
from palaver.utils.stats import intervals
from palaver.utils.stats.intervals import Interval, Mode

OUTCOME = "outcome.json"
RESULTS = "lab.json"


@dataclass(frozen=True)
class MatrixGameResult:
    """One run.

    Attributes:
        algorithm: its row.
        game: its column.
        seed: of the run.
        status: `done`, `failed`, or `missing` if not finished.
        before: mean undiscounted return of the team before training, if evaluated.
        after: likewise at the end.
        wall_s: seconds, loading included.
        cpu_s: likewise, of the process.
        error: error message, in one line.
    """

    algorithm: str
    game: str
    seed: int
    status: Literal["done", "failed", "missing"]
    before: float | None = None
    after: float | None = None
    wall_s: float = 0.0
    cpu_s: float = 0.0
    error: str = ""


@dataclass(frozen=True)
class AlgorithmScore:
    """The runs of an algorithm in a game.

    Attributes:
        mean: return over the seeds.
        spread: standard deviation over the seeds; None for one.
        share: the mean as a share of the optimum; None if that is not positive.
        n: seeds.
        error: error of the first failed run.
        interval: Student's, of the mean.
        bootstrap: likewise, by resampling the seeds.
        agreed: number of seeds if all have one result, see `intervals.agree`; else 0.
        modes: see `intervals.modes`.
    """

    mean: float | None
    spread: float | None
    share: float | None
    n: int
    error: str = ""
    interval: Interval | None = None
    bootstrap: Interval | None = None
    agreed: int = 0
    modes: tuple[Mode, ...] = ()


@dataclass(frozen=True)
class Lab:
    """Data of the table, the figure and the page.

    Attributes:
        algorithms: its rows.
        columns: known properties of each game.
        results: of all runs.
        provenance: of the table, with the name and hash of each tiny model that its runs began with as `warm_starts`.
        minutes: duration of the last session.
        without: algorithm without a row -> reason.
    """

    algorithms: tuple[str, ...]
    columns: Mapping[str, Column]
    results: tuple[MatrixGameResult, ...]
    provenance: Mapping[str, Any]
    minutes: float
    without: Mapping[str, str] = field(default_factory=dict)

    @property
    def failed(self) -> list[MatrixGameResult]:
        """Failed runs."""
        return [result for result in self.results if result.status == "failed"]

    @property
    def cpu_minutes(self) -> float:
        """CPU time of all runs, over all sessions."""
        return sum(result.cpu_s for result in self.results) / 60

    def score(self, algorithm: str, game: str) -> AlgorithmScore:
        """One cell of the table."""
        errors = [result.error for result in self.failed if (result.algorithm, result.game) == (algorithm, game)]
        return score(self.returns(algorithm, game), self.columns[game], errors)

    def returns(self, algorithm: str, game: str) -> list[float]:
        """The returns of a cell's runs, seed by seed."""
        return [
            result.after
            for result in self.results
            if (result.algorithm, result.game) == (algorithm, game) and result.after is not None
        ]

    def save(self, folder: Path) -> None:
        """Write `lab.json`."""
        table = {name: {game: asdict(self.score(name, game)) for game in self.columns} for name in self.algorithms}
        values = {
            "minutes": self.minutes,
            "cpu_minutes": round(self.cpu_minutes, 2),
            "provenance": dict(self.provenance),
            "without": dict(self.without),
            "games": {game: asdict(column) for game, column in self.columns.items()},
            "table": table,
            "runs": [asdict(result) for result in self.results],
        }
        replace_text(folder / RESULTS, json.dumps(values, indent=1) + "\n")


def score(values: Sequence[float], column: Column, errors: Sequence[str] = ()) -> AlgorithmScore:
    """Summarise returns as a cell of the table.

    Their reference range is from random play to the optimum.
    """
    if not values:
        return AlgorithmScore(None, None, None, 0, errors[0] if errors else "")
    mean, span = statistics.fmean(values), abs(column.optimum - column.random)
    same = intervals.agree(values, span)
    return AlgorithmScore(
        mean,
        statistics.stdev(values) if len(values) > 1 else None,
        mean / column.optimum if column.optimum > 0 else None,
        len(values),
        errors[0] if errors else "",
        intervals.student(values),
        intervals.bootstrap(values),
        len(values) if same else 0,
        () if same else intervals.modes(values, span),
    )


def load(path: Path) -> Lab:
    """Load the file of `Lab.save`.

    Raises:
        CheckpointError: the file does not exist or has another format.
    """
    with results_of(path, "results of a laboratory") as values:
        return Lab(
            tuple(values["table"]),
            {game: Column(**column) for game, column in values["games"].items()},
            tuple(MatrixGameResult(**result) for result in values["runs"]),
            values["provenance"],
            values["minutes"],
            values.get("without", {}),
        )


def collect(
    plan: MatrixGamesPlan,
    folder: Path,
    refused: Mapping[MatrixGameRun, str],
    provenance: Mapping[str, Any],
    minutes: float,
) -> Lab:
    """Collect the results of all cells of a plan from their folders.

    Args:
        plan: of the cells.
        folder: of the laboratory.
        refused: cell -> reason why it was not run.
        provenance: of this table.
        minutes: duration of the last session.
    """
    results = tuple(
        MatrixGameResult(cell.algorithm, cell.game, cell.seed, "failed", error=refused[cell])
        if cell in refused
        else read(cell, folder)
        for cell in plan.cells
    )
    launches = (read_record(folder / cell.subfolder / LAUNCH) for cell in plan.cells)
    starts = (start for launch in launches for start in launch.get("warm_starts", {}).values())
    made_with = {**provenance, "warm_starts": {start["model"]: start["hash"] for start in starts}}
    return Lab(plan.algorithms, plan.columns, results, made_with, minutes, plan.lab.without)


def read(cell: MatrixGameRun, folder: Path) -> MatrixGameResult:
    """Read the result of a cell from its folder."""
    run_folder = folder / cell.subfolder
    outcome = read_record(run_folder / OUTCOME)
    error = str(outcome.get("error", ""))
    wall, cpu = (number(outcome, key) or 0.0 for key in ("wall_s", "cpu_s"))
    if error:
        return MatrixGameResult(cell.algorithm, cell.game, cell.seed, "failed", None, None, wall, cpu, error)
    if not outcome or not ended(run_folder):
        return MatrixGameResult(cell.algorithm, cell.game, cell.seed, "missing")
    means = [number(line, "mean") for line in read_metrics(run_folder / METRICS) if line.get("kind") == "eval"] or [
        None
    ]
    return MatrixGameResult(cell.algorithm, cell.game, cell.seed, "done", means[0], means[-1], wall, cpu)
