"""Kept results of docs/tools.md."""

from __future__ import annotations

import json
from statistics import fmean

import pytest

from palaver.utils.stats.intervals import student
from tests.architecture.source import ROOT


@pytest.mark.parametrize(("name", "keyword"), [("calculator", "calculator"), ("own-tests", "own_tests")])
def test_the_tables_are_those_of_the_kept_runs(name: str, keyword: str) -> None:
    page = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
    kept = json.loads((ROOT / "docs" / "runs" / "tools" / f"{name}.json").read_text(encoding="utf-8"))
    ends, before = {}, {}
    for given in (True, False):
        runs = [run for run in kept["runs"] if run[keyword] == given]
        assert [run["seed"] for run in runs] == [101, 102, 103, 104, 105]
        (steps,) = {run["steps"] for run in runs}
        after = [run["after"] for run in runs]
        low, high = ends[given] = student(after)
        before[given] = fmean(run["before"] for run in runs)
        tokens, calls = (fmean(run[key] for run in runs) for key in ("tokens", "calls_after"))
        ends_row = f"{before[given]:.3f} | {fmean(after):.3f} [{low:.3f}, {high:.3f}]"
        row = f"| {ends_row} | {calls:.2f} | {round(tokens):,} | {steps} |"
        assert row in page, row
    assert ends[True][0] > ends[False][1], "the intervals are disjoint"
    words = " ".join(page.split())
    assert f"Of the difference, {before[True] - before[False]:.3f} is there before training" in words
    assert f"[{name}.json](runs/tools/{name}.json), of commit {kept['commit']}." in words
