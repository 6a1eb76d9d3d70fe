"""Kept results of docs/maths.md."""

from __future__ import annotations

from pathlib import Path

import pytest

from palaver.benchmarks.experiments.reasoning.plan import read
from palaver.benchmarks.experiments.reasoning.results import load

KEPT = Path(__file__).parents[2] / "docs" / "runs" / "maths"


def test_the_kept_runs_are_the_shipped_tables():
    found, plan = load(KEPT), read("maths")
    assert found.rows == tuple(row.name for row in plan.rows)
    assert {len(found.of(row)) for row in found.rows} == {3}
    assert len(found.tasks) == 256
    runs = {path.name for path in (KEPT / "runs").iterdir()}
    assert runs == {f"{recipe}-{seed}" for recipe in plan.recipes for seed in range(3)}


def test_every_trained_row_learnt_from_as_many_tokens():
    spent = {cell.training_tokens for cell in load(KEPT).cells} - {0}
    assert max(spent) / min(spent) == pytest.approx(1.0, abs=0.05)
