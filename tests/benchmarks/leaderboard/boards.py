"""Folders of rows for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from palaver.agents.llm.model.options import ModelOptions
from palaver.benchmarks.evaluation.evaluate import EvaluationConfig, measure, to_row
from palaver.benchmarks.evaluation.focal import FocalRound
from palaver.benchmarks.scenarios import spec
from palaver.benchmarks.scenarios.spec import Scenario

COMMIT = "0123456789ab"
SCENARIO = {
    "name": "echo-strangers-v1", "about": "x", "env": "echo-v0", "n": 3, "focal": [["a1"], ["a2"]],
    "partner": {"policy": "random"}, "keywords": {"shared": False},
}  # fmt: skip


def fill(folder: Path) -> Path:
    """Rows of echo-v0, of matrix-v1 and of a scenario, with a commit that the tests' tree need not be at."""
    for label, team in (("reference", "scripted:reference"), ("random", "random")):
        for setting in (
            EvaluationConfig("echo-v0", team=team, n=4),
            EvaluationConfig("matrix-v1", {"game": "climbing"}, "scripted:uniform" if team == "random" else team, 8),
            spec.setting(Scenario(**SCENARIO), team, ModelOptions()),
        ):
            result, episodes = measure(setting)
            row = to_row(result, episodes, label, folder)
            change(folder / f"{row.name}.json", commit=COMMIT)
    return folder


def battle_rows(folder: Path) -> Path:
    """A row of two battles."""
    result, episodes = measure(
        EvaluationConfig("pokemon-v1", team="scripted:uniform", n=2, seatings=(FocalRound(("p1",)),))
    )
    row = to_row(result, episodes, "uniform", folder)
    change(folder / f"{row.name}.json", commit=COMMIT)
    return folder


def change(path: Path, **facts: Any) -> None:
    """Rewrite fields of a row; None removes one."""
    record = {**json.loads(path.read_text()), **facts}
    path.write_text(json.dumps({name: value for name, value in record.items() if value is not None}))
