"""The true reward beside the score, by hand, from the files of a run."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from palaver.benchmarks.experiments.marlhf.truth import draw, line, truth
from palaver.core import CheckpointError
from tests.benchmarks.conftest import episode


def put(folder: Path, step: int, scores: list[float], own: list[float] | None) -> None:
    """An evaluation of two tasks, and the training step before it."""
    (folder / "episodes").mkdir(exist_ok=True)
    rows = []
    for n, score in enumerate(scores):
        one = episode(f"t{n}", ("x", "y"), {"reward_model": score})
        if own is not None:
            one = replace(one, turns=(replace(one.turns[0], metrics={"own": own[n]}),))
        rows.append(json.dumps(one.to_dict()) + "\n")
    (folder / "episodes" / f"eval-{step:06d}.jsonl").write_text("".join(rows))
    with (folder / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"kind": "train", "step": step, "reward/mean": 1.0, "metric/own": 0.25}) + "\n")


def test_the_gap_by_hand(tmp_path):
    """Before: scores -1 and 1, own 0 and 1: true = 1/2 + score / 2. After: 3 and 5, own 1 and 2: 2.5 against 1.5."""
    put(tmp_path, 0, [-1.0, 1.0], [0.0, 1.0])
    put(tmp_path, 10, [3.0, 5.0], [1.0, 2.0])
    found = truth(tmp_path)
    assert found.line == pytest.approx((0.5, 0.5))
    first, last = found.evaluations
    assert (first.true, first.score, first.gap) == pytest.approx((0.5, 0.0, 0.0))
    assert (last.true, last.score, last.scaled, last.gap) == pytest.approx((1.5, 4.0, 2.5, 1.0))
    assert (last.low, last.high, last.n) == (1.0, 2.0, 2)
    assert (found.gain.mean, found.gain.low, found.gain.high) == pytest.approx((1.0, 1.0, 1.0))
    assert [(each.step, each.true, each.scaled) for each in found.steps] == [(0, 0.25, 1.0), (10, 0.25, 1.0)]
    draw(found, "a $title", tmp_path / "picture.png")
    assert (tmp_path / "picture.png").stat().st_size > 10_000


def test_the_line_of_least_squares():
    """x 0, 1, 2 and y 0, 2, 1: slope 1/2, through (1, 1); equal x tell nothing, and the line is flat."""
    assert line([(0.0, 0.0), (1.0, 2.0), (2.0, 1.0)]) == pytest.approx((0.5, 0.5))
    assert line([(3.0, 0.0), (3.0, 1.0)]) == (0.5, 0.0)


def test_runs_that_tell_no_truth_are_refused(tmp_path):
    with pytest.raises(CheckpointError, match="fewer than two"):
        truth(tmp_path)
    put(tmp_path, 0, [1.0, 2.0], None)
    put(tmp_path, 1, [1.0, 2.0], None)
    with pytest.raises(CheckpointError, match="own reward"):
        truth(tmp_path)
