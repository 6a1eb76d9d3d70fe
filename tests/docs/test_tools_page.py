"""Kept results of docs/tools.md."""

from __future__ import annotations

import json
from statistics import fmean

from palaver.utils.stats.intervals import student
from tests.architecture.source import ROOT

RUNS = json.loads((ROOT / "docs" / "runs" / "tools" / "calculator.json").read_text(encoding="utf-8"))["runs"]


def test_the_table_is_that_of_the_kept_runs():
    page = (ROOT / "docs" / "tools.md").read_text(encoding="utf-8")
    ends = {}
    for given in (True, False):
        runs = [run for run in RUNS if run["calculator"] == given]
        assert [run["seed"] for run in runs] == [101, 102, 103, 104, 105]
        after = [run["after"] for run in runs]
        low, high = ends[given] = student(after)
        tokens, calls = (fmean(run[key] for run in runs) for key in ("tokens", "calls_after"))
        row = f"{fmean(run['before'] for run in runs):.3f} | {fmean(after):.3f} [{low:.3f}, {high:.3f}]"
        assert f"| {row} | {calls:.2f} | {round(tokens):,} |" in page, (row, calls, round(tokens))
    assert ends[True][0] > ends[False][1], "the intervals are disjoint"
