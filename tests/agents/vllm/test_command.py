"""`palaver train ... policy.engine=vllm` as a command: end to end, killed and resumed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from palaver.trainers.run.logging import read_metrics

LIMIT_S = 900.0
TIMINGS = ("wall_s", "cpu_s", "tokens_per_s", "time/")
SETTINGS = (
    "train.steps=6 train.checkpoint_every=2 algorithm.group_size=4 eval.n=2 eval.samples=2 "
    "policy.engine=vllm threads=1 log.tensorboard=false device=cpu"
)
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}


def palaver(*words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "palaver", *words]
    return subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)


def trained(folder: Path) -> subprocess.Popen[str]:
    return palaver("train", "matrix-magrpo-3", *SETTINGS.split(), f"out={folder}")


def numbers(folder: Path) -> list[dict[str, Any]]:
    lines = read_metrics(folder / "metrics.jsonl")
    return [{k: v for k, v in line.items() if not k.startswith(TIMINGS)} for line in lines]


def finish(process: subprocess.Popen[str]) -> str:
    err = process.communicate(timeout=LIMIT_S)[1]
    assert process.returncode == 0, err
    return err


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "whole"
    finish(trained(folder))
    return folder


def test_a_run_of_three_adapters(whole):
    steps = [line for line in read_metrics(whole / "metrics.jsonl") if line["kind"] == "train"]
    assert [line["step"] for line in steps] == list(range(1, 7))
    drifts = [value for line in steps for key, value in line.items() if key.endswith("/engine_drift")]
    assert len(drifts) == 3 * 6
    assert 0 < max(drifts) <= 1e-4
    assert (whole / "report.html").is_file()


def test_a_killed_run_resumes_number_for_number(whole, tmp_path):
    folder = tmp_path / "killed"
    process = trained(folder)
    deadline = time.monotonic() + LIMIT_S
    while not any(line["kind"] == "train" and line["step"] >= 3 for line in read_metrics(folder / "metrics.jsonl")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=60)
    finish(palaver("train", str(folder), "--resume"))
    assert numbers(folder) == numbers(whole)
