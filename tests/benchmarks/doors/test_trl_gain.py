"""The exported script raises the agent's return on held-out tasks: three seeds, interval clear of 0."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from palaver.benchmarks.doors.trl.export import export_trl
from palaver.utils.stats.intervals import student
from tests.architecture.source import ROOT

STORED = ROOT / "docs" / "runs" / "doors" / "trl.json"
KEYWORDS = {"length": [32, 64], "match": "word", "ending": ".", "grammar": "sample"}


def test_stored_figures():
    stored = json.loads(STORED.read_text(encoding="utf-8"))
    gains = [run["after"] - run["before"] for run in stored["runs"]]
    assert [run["seed"] for run in stored["runs"]] == [0, 1, 2]
    assert student(gains) == pytest.approx((stored["low"], stored["high"]), abs=1e-6)
    assert stored["low"] > 0
    page = (ROOT / "docs" / "doors.md").read_text(encoding="utf-8")
    assert f"gain is {stored['gain']:.2f} of a maximum of 3, with the 95 % interval {stored['low']:.2f}" in page
    for run in stored["runs"]:
        assert f"| {run['seed']} | {run['before']:.3f} | {run['after']:.3f} |" in page
    assert all(run["keywords"] == KEYWORDS for run in stored["runs"])
    assert (stored["runs"][0]["env"], stored["runs"][0]["agent"]) == ("arxiv-v0", "background")


@pytest.mark.door
@pytest.mark.timeout(3600)
def test_training_with_trl_raises_the_return(tmp_path):
    pytest.importorskip("trl")
    script, _ = export_trl("arxiv-v0", "background", tmp_path, "scripted:reference", KEYWORDS)
    gains = []
    for seed in range(3):
        out = tmp_path / str(seed)
        command = [sys.executable, str(script), "--cpu", "--seed", str(seed), "--out", str(out)]
        subprocess.run(command, check=True, timeout=1200, capture_output=True, cwd=tmp_path)
        result = json.loads((out / "result.json").read_text())
        gains.append(result["after"] - result["before"])
    low, _ = student(gains)
    assert low > 0, gains
