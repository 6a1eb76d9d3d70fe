"""Results of the teams of a table, problem by problem: one file, rewritten after every team."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from palaver.benchmarks.experiments.runner import results_of
from palaver.core import CheckpointError
from palaver.utils.run_folder import replace_text

RESULTS = "results.json"


@dataclass(frozen=True)
class TeamSeedResult:
    """One team with one seed.

    Attributes:
        row: its name in the table.
        seed: of its training and of its answers.
        digest: hash of all that decides them.
        sampled: (T,) score of the team's answer to each problem, 1 or 0, sampled at temperature 1.
        greedy: (T,) the same with greedy decoding.
        tokens: mean number of sampled tokens for a problem, over all agents and turns.
        training_tokens: total number sampled in training; 0 without training.
        cpu_s: seconds of training, evaluations included; 0 without training.
    """

    row: str
    seed: int
    digest: str
    sampled: tuple[float, ...]
    greedy: tuple[float, ...]
    tokens: float
    training_tokens: int = 0
    cpu_s: float = 0.0


@dataclass(frozen=True)
class Results:
    """A table as far as it got.

    Attributes:
        baseline: the row that the others are compared with.
        rows: names of all rows in order.
        after: row -> the row of the same team before training.
        tasks: (T,) the problems.
        cells: those finished so far.
        provenance: of the newest cells.
    """

    baseline: str
    rows: tuple[str, ...]
    after: Mapping[str, str]
    tasks: tuple[str, ...]
    cells: tuple[TeamSeedResult, ...]
    provenance: Mapping[str, Any]

    def of(self, row: str) -> list[TeamSeedResult]:
        """The cells of a row in order of their seeds."""
        return sorted((cell for cell in self.cells if cell.row == row), key=lambda cell: cell.seed)

    def save(self, folder: Path) -> None:
        """Write `results.json`."""
        values = {"beside": self.baseline} | asdict(self) | {"cells": [asdict(cell) for cell in self.cells]}
        del values["baseline"]  # its key in the file is `beside`
        lines = json.dumps(values, indent=1).replace("\n    ", " ").replace("\n   ]", " ]")  # a line for each list
        replace_text(folder / RESULTS, lines + "\n")


def load(folder: Path) -> Results:
    """Load the file of `Results.save`.

    Raises:
        CheckpointError: the file does not exist or has another format.
    """
    path = folder / RESULTS
    with results_of(path, "table of teams") as values:
        cells = tuple(
            TeamSeedResult(**cell | {key: tuple(cell[key]) for key in ("sampled", "greedy")})
            for cell in values["cells"]
        )
        rows, tasks = tuple(values["rows"]), tuple(values["tasks"])
        results = Results(values["beside"], rows, dict(values["after"]), tasks, cells, values["provenance"])
    if any(len(cell.sampled) != len(results.tasks) or len(cell.greedy) != len(results.tasks) for cell in results.cells):
        raise CheckpointError(f"{str(path)!r} holds answers to more or fewer problems than it names")
    return results
