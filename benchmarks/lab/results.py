"""What came of a laboratory: the return of every run, and the table of them beside each game's exact optimum."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from palaver.benchmarks.lab.plan import Cell, Column, Plan
from palaver.benchmarks.runs import number
from palaver.clean import one_line
from palaver.core import CheckpointError, ConfigError
from palaver.trainers.files import CONFIG, METRICS, ended
from palaver.trainers.recipe import dump
from palaver.trainers.sinks import read_metrics
from palaver.utils.run_folder import replace_text

OUTCOME = "outcome.json"
RESULTS = "lab.json"


@dataclass(frozen=True)
class Result:
    """One run.

    Attributes:
        algorithm: its row.
        game: its column.
        seed: of the run.
        status: `done`, `failed`, or `missing` where it has not been run to its end.
        before: mean undiscounted return of the team before training, where it was evaluated.
        after: likewise at the end.
        wall_s: seconds, loading included.
        cpu_s: likewise, of the process.
        error: what went wrong, in one line.
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
class Score:
    """The runs of an algorithm in a game: mean return, standard deviation over the n seeds (None for one), the mean as
    a share of the optimum (None where that is not positive), and what went wrong in the first run that failed.
    """

    mean: float | None
    spread: float | None
    share: float | None
    n: int
    error: str = ""


@dataclass(frozen=True)
class Lab:
    """Everything that the table, the picture and the page show."""

    algorithms: tuple[str, ...]
    columns: Mapping[str, Column]
    results: tuple[Result, ...]
    provenance: Mapping[str, Any]
    minutes: float

    @property
    def failed(self) -> list[Result]:
        """The runs that went wrong."""
        return [result for result in self.results if result.status == "failed"]

    @property
    def cpu_minutes(self) -> float:
        """CPU time of all runs, whenever they ran."""
        return sum(result.cpu_s for result in self.results) / 60

    def score(self, algorithm: str, game: str) -> Score:
        """One cell of the table."""
        runs = [each for each in self.results if (each.algorithm, each.game) == (algorithm, game)]
        values = [each.after for each in runs if each.after is not None]
        errors = [each.error for each in runs if each.status == "failed"]
        return score(values, self.columns[game].optimum, errors)

    def save(self, folder: Path) -> Path:
        """Write `lab.json`; its path."""
        table = {name: {game: asdict(self.score(name, game)) for game in self.columns} for name in self.algorithms}
        values = {
            "minutes": self.minutes,
            "cpu_minutes": round(self.cpu_minutes, 2),
            "provenance": dict(self.provenance),
            "games": {game: asdict(column) for game, column in self.columns.items()},
            "table": table,
            "runs": [asdict(result) for result in self.results],
        }
        path = folder / RESULTS
        replace_text(path, json.dumps(values, indent=1) + "\n")
        return path


def score(values: Sequence[float], optimum: float, errors: Sequence[str] = ()) -> Score:
    """The cell of the table for these returns.

    >>> score([7.0, 8.0], 8.0)
    Score(mean=7.5, spread=0.7071067811865476, share=0.9375, n=2, error='')
    """
    if not values:
        return Score(None, None, None, 0, errors[0] if errors else "")
    mean = statistics.fmean(values)
    spread = statistics.stdev(values) if len(values) > 1 else None
    return Score(mean, spread, mean / optimum if optimum > 0 else None, len(values), errors[0] if errors else "")


def load(path: Path) -> Lab:
    """What `Lab.save` wrote.

    Raises:
        CheckpointError: there is no such file, or it is something else.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        return Lab(
            tuple(values["table"]),
            {game: Column(**column) for game, column in values["games"].items()},
            tuple(Result(**result) for result in values["runs"]),
            values["provenance"],
            values["minutes"],
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{str(path)!r} holds no results of a laboratory: {one_line(error)}") from error


def collect(
    plan: Plan, folder: Path, refused: Mapping[Cell, str], provenance: Mapping[str, Any], minutes: float
) -> Lab:
    """The results of all cells of a plan, as their folders have them.

    Args:
        plan: whose cells.
        folder: of the laboratory.
        refused: cell -> why it was not run.
        provenance: of this table.
        minutes: it took, in the last session.
    """
    found = tuple(
        Result(cell.algorithm, cell.game, cell.seed, "failed", error=refused[cell])
        if cell in refused
        else read(cell, folder)
        for cell in plan.cells
    )
    return Lab(plan.algorithms, plan.columns, found, provenance, minutes)


def read(cell: Cell, folder: Path) -> Result:
    """What a cell's folder says."""
    here = folder / cell.place
    told = _json(here / OUTCOME)
    error = str(told.get("error", ""))
    wall, cpu = (number(told, key) or 0.0 for key in ("wall_s", "cpu_s"))
    if error:
        return Result(cell.algorithm, cell.game, cell.seed, "failed", None, None, wall, cpu, error)
    if not told or not ended(here):
        return Result(cell.algorithm, cell.game, cell.seed, "missing")
    means = [number(line, "mean") for line in read_metrics(here / METRICS) if line.get("kind") == "eval"] or [None]
    return Result(cell.algorithm, cell.game, cell.seed, "done", means[0], means[-1], wall, cpu)


def settled(cell: Cell, folder: Path) -> bool:
    """Whether this cell has been run to its end.

    Raises:
        ConfigError: it has, with another config.
    """
    if read(cell, folder).status != "done":
        return False
    here = folder / cell.place
    if (here / CONFIG).read_text(encoding="utf-8") != dump(cell.config):
        raise ConfigError(f"{str(here)!r} holds a run with other settings; choose another folder, or remove it")
    return True


def _json(path: Path) -> dict[str, Any]:
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return values if isinstance(values, dict) else {}
