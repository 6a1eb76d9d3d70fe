"""Training runs as real processes: two that want one folder, kills inside a write, a terminal that goes away."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from palaver.trainers.config.loading import load
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import train
from palaver.utils.config import dump
from tests.trainers.test_run_folders import cut, numbers, settings
from tests.trainers.toys import register_toy, save_model

ROOT = Path(__file__).parents[2]
SCRIPT = """
import os, sys, time
from pathlib import Path
from palaver.core import PalaverError
from palaver.trainers.config.loading import load
from palaver.trainers.train import resume, train
from palaver.utils import run_folder
from tests.trainers.toys import register_toy

if sys.argv[3] == "slowly":
    fsync = os.fsync
    run_folder.os.fsync = lambda handle: (time.sleep(0.05), fsync(handle))
register_toy()
folder = Path(sys.argv[2])
if sys.argv[3].startswith("/"):
    folder.with_name(f"ready-{os.getpid()}").touch()
    while not os.path.exists(sys.argv[3]):
        time.sleep(0.001)
try:
    resume(folder) if (folder / "config.yaml").is_file() else train(load(sys.argv[1]), folder)
except PalaverError as error:
    print(error, file=sys.stderr)
    sys.exit(2)
"""
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Path:
    register_toy()
    place = tmp_path_factory.mktemp("runs")
    config = settings(
        save_model(place / "m"), log={"tensorboard": False}, train={"steps": 6, "checkpoint_every": 2, "keep": 3}
    )
    (place / "recipe.yaml").write_text(dump(config))
    return train(config, place / "whole")


def start(whole, folder, how="", **kwargs):
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", SCRIPT, str(whole.with_name("recipe.yaml")), str(folder), how]
    return subprocess.Popen(command, env=environment, **({"stderr": subprocess.PIPE, "text": True} | kwargs))


def wait_for(condition, process, seconds=300):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.002)


def test_of_two_resumes_at_once_one_ends_with_code_2_and_the_other_as_if_alone(whole, tmp_path):
    folder = cut(whole, tmp_path / "run")
    both = [start(whole, folder, str(tmp_path / "go")) for _ in range(2)]
    for each in both:  # both are loaded and begin in the same milliseconds
        wait_for(tmp_path.joinpath(f"ready-{each.pid}").exists, each)
    (tmp_path / "go").touch()
    said = {each.pid: each.communicate(timeout=600)[1] for each in both}
    assert sorted(each.returncode for each in both) == [0, 2], said
    winner, loser = sorted(both, key=lambda each: each.returncode)
    assert f"is in use by process {winner.pid} (on " in said[loser.pid]
    assert "Traceback" not in said[loser.pid]
    assert numbers(folder) == numbers(whole)


def test_a_run_that_is_killed_inside_its_writes_is_as_one_that_was_not(whole, tmp_path):
    """kill -9 as soon as a half-written file is seen, three times; writes take longer here so that they are met."""
    folder, within = tmp_path / "run", 0

    def writing():
        return list(folder.rglob(".writing-*"))

    for kills in (0, 2, 5):
        process = start(whole, folder, "slowly", stderr=subprocess.DEVNULL)
        steps = len(read_metrics(folder / "metrics.jsonl"))
        wait_for(lambda n=steps, k=kills: len(read_metrics(folder / "metrics.jsonl")) > min(n, k), process)
        wait_for(writing, process)
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
        within += bool(writing())
    assert within >= 2  # the other had just been renamed
    last = start(whole, folder)
    assert (last.communicate(timeout=600)[1], last.returncode)[1] == 0
    assert numbers(folder) == numbers(whole)
    assert [path for path in folder.rglob("*") if ".writing" in path.name] == []
    weights = "checkpoints/step-000006/policies/a/model.safetensors"
    assert (folder / weights).read_bytes() == (whole / weights).read_bytes()


def test_a_run_whose_rollouts_lead_is_killed_and_goes_on_as_one_that_was_not(whole, tmp_path):
    """kill -9 three times: after step 1, before the first checkpoint; in step 4, after that of 2; inside the last."""
    config = load(str(whole.with_name("recipe.yaml")), ["train.rollout_lead=1", "algorithm.truncate=2"])
    (tmp_path / "recipe.yaml").write_text(dump(config))
    uninterrupted, folder = train(config, tmp_path / "uninterrupted"), tmp_path / "run"
    assert {line.get("a/staleness") for line in numbers(uninterrupted) if line["kind"] == "train"} == {0, 1}
    for step in (1, 3, 5):
        process = start(uninterrupted, folder, "slowly", stderr=subprocess.DEVNULL)
        wait_for(
            lambda n=step: any(
                line["kind"] == "train" and line["step"] >= n for line in read_metrics(folder / "metrics.jsonl")
            ),
            process,
        )
        process.send_signal(signal.SIGKILL)
        assert process.wait(timeout=60) == -signal.SIGKILL
    last = start(uninterrupted, folder)
    assert (last.communicate(timeout=600)[1], last.returncode)[1] == 0
    assert numbers(folder) == numbers(uninterrupted)
    for agent in "ab":
        weights = f"checkpoints/step-000006/policies/{agent}/model.safetensors"
        assert (folder / weights).read_bytes() == (uninterrupted / weights).read_bytes()


def test_a_terminal_that_goes_away_ends_the_run_as_sigterm_does(whole, tmp_path):
    """The run's terminal is closed in the middle: the kernel sends SIGHUP, and every write to it is an error."""
    folder = tmp_path / "run"
    recipe = whole.with_name("recipe.yaml")
    text = recipe.read_text()
    recipe.write_text(text.replace("steps: 6", "steps: 4000"))
    pid, terminal = pty.fork()
    if pid == 0:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        os.execve(sys.executable, [sys.executable, "-c", SCRIPT, str(recipe), str(folder), ""], environment)
    try:
        deadline = time.monotonic() + 300
        os.set_blocking(terminal, False)
        while len(read_metrics(folder / "metrics.jsonl")) < 4:
            assert time.monotonic() < deadline
            try:
                os.read(terminal, 65536)
            except BlockingIOError:
                time.sleep(0.01)
        os.close(terminal)
        seen = max(line["step"] for line in read_metrics(folder / "metrics.jsonl"))
        while (done := os.waitpid(pid, os.WNOHANG))[0] == 0:
            assert time.monotonic() < deadline
            time.sleep(0.05)
    finally:
        recipe.write_text(text)
        with contextlib.suppress(ProcessLookupError):  # where it has not ended in time
            os.kill(pid, signal.SIGKILL)
    status = json.loads((folder / "status.json").read_text())
    assert (os.waitstatus_to_exitcode(done[1]), status["status"]) == (0, "interrupted")
    assert status["step"] >= seen >= 2  # it may have been evaluating after step 2
    assert (folder / "checkpoints" / f"step-{status['step']:06d}").is_dir()
    assert len(read_metrics(folder / "metrics.jsonl")) >= status["step"]
