"""A whole run through the command line, on a model of random weights: train, report, evaluate, interrupt, resume."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from palaver.benchmarks.reports.run_folder import read
from palaver.benchmarks.reports.summary import reproduce


def overrides(model: str, steps: int) -> list[str]:
    return [
        "env.id=echo-v0", "env.tasks=sample[:4]", f"policy.model={model}", "policy.max_tokens=8", "team.kind=shared",
        "algorithm.group_size=2", f"train.steps={steps}", "train.checkpoint_every=1", "eval.n=2",
        "log.tensorboard=false",
    ]  # fmt: skip


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text("# a recipe of my own\nalgorithm: {turns: independent}\n", encoding="utf-8")
    return path


def test_train_report_evaluate(palaver, model, recipe):
    ran = palaver("train", recipe, *overrides(model, 2))
    assert ran.code == 0, ran.err
    (folder,) = Path("runs").iterdir()
    assert folder.name.startswith("mine-")
    assert "before, step 0" in ran.out
    assert "after, step 2" in ran.out
    assert "mean reward (of 4.5)" in ran.out
    assert f"report  {folder}/report.html\n" in ran.out
    assert {"report.html", "curve.png", "launch.json", "config.yaml"} <= {path.name for path in folder.iterdir()}
    assert reproduce(read(folder))[0].startswith(f"palaver train {recipe} env.id=echo-v0 ")

    evaluated = palaver("evaluate", "echo-v0", "--team", f"run:{folder}", "--json")
    found = json.loads(evaluated.out)
    assert found["keywords"]["tasks"] == "sample[:4]"
    assert found["sampling"]["max_tokens"] == 8
    assert found["tokens"]["a1"] > 0
    assert {*found["policies"].values()} == {f"run:{folder.name}/shared@2"}
    mixed = json.loads(palaver("evaluate", "echo-v0", "--team", f"a1=run:{folder},a2=random", "--json").out)
    assert mixed["policies"] == {"a1": f"run:{folder.name}/shared@2", "a2": "random"}
    assert mixed["keywords"]["tasks"] == "sample[:4]"
    assert mixed["tokens"]["a1"] <= 8
    played = palaver("play", "echo-v0", "n=1", "--team", f"run:{folder}", "sampling.max_tokens=4")
    assert played.code == 2, "echo-v0 has no keyword n"
    assert palaver("play", "echo-v0", "--team", f"run:{folder}", "sampling.max_tokens=4").code == 0
    (folder / "checkpoints" / "step-000002" / "manifest.json").write_text("{", encoding="utf-8")
    older = palaver("evaluate", "echo-v0", "--team", f"run:{folder}", "-n", 1)
    assert "step-000002" in older.err
    assert "using the one before" in older.err

    again = palaver("train", recipe, "--out", folder)
    assert (again.code, "already holds a run" in again.err) == (2, True)


@pytest.mark.timeout(600)  # far above what it takes, for machines that do much else
def test_ctrl_c_saves_reports_and_is_130(model, recipe, tmp_path):
    folder = tmp_path / "stopped"
    command = [sys.executable, "-m", "palaver", "train", str(recipe), *overrides(model, 500), "--out", str(folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        deadline = time.monotonic() + 300
        while not list((folder / "checkpoints").glob("step-*")) and time.monotonic() < deadline:
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=240)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert f"interrupted; resume with: palaver train --resume {folder}" in err
    assert "Traceback" not in err
    assert "interrupted after step" in out
    assert (folder / "report.html").is_file()
