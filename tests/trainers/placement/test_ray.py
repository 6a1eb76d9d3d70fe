"""Workers as Ray actors (`make test-ray`): numbers, killed actors, refusals."""

from __future__ import annotations

import io
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from rich.console import Console

from palaver.core import ConfigError
from palaver.trainers.placement import ray_workers
from palaver.trainers.run import checkpoint
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import train
from palaver.utils.config import dump
from tests.trainers.placement.test_remote import numbers, run_config
from tests.trainers.toys import register_toy, save_model

pytest.importorskip("ray")
pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]
KILLS = int(os.environ.get("PALAVER_KILLS", "3"))  # the acceptance run has 20
ENV = {"id": "echo-v0", "num_turns": 2}  # an environment that workers know, too


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    register_toy()
    return save_model(tmp_path_factory.mktemp("model") / "m")


def settings(model, name="magrpo", kind="separate", placement="ray", **sections):
    return run_config(model, name, kind, placement, env=ENV, **sections)


def quiet():
    return Console(file=io.StringIO())


def actors():
    """Process ids of the workers on this machine."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if b"ray::PolicyWorker" in entry.read_bytes():
                found.append(int(entry.parent.name))
        except OSError:
            continue
    return found


def vanish(get, seconds=20.0):
    """What is left of a list after waiting for it to be empty."""
    end = time.monotonic() + seconds
    while (left := get()) and time.monotonic() < end:
        time.sleep(0.2)
    return left


@pytest.mark.parametrize(
    ("name", "kind"), [("magrpo", "separate"), ("ippo", "lora"), ("mappo", "shared"), ("qmix", "separate")]
)
def test_a_run_in_actors_equals_the_run_in_this_process(model, tmp_path, name, kind):
    for placement in ("local", "ray"):
        train(settings(model, name, kind, placement), tmp_path / placement, console=quiet())
    assert numbers(tmp_path / "ray") == numbers(tmp_path / "local")
    assert not vanish(actors)


@pytest.mark.parametrize("seed", range(KILLS))
def test_a_killed_actor_changes_no_number(model, tmp_path, seed):
    """An actor is killed at a random time between the start of the loop and its end."""
    steps = {"train": {"steps": 6, "checkpoint_every": 2, "prompts_per_step": 2}}
    train(settings(model, placement="local", **steps), tmp_path / "local", console=quiet())
    console, killed = quiet(), []
    drawn = random.Random(seed)
    line, wait = drawn.randrange(6), drawn.random() * 0.3

    def kill():
        metrics = tmp_path / "ray" / "metrics.jsonl"
        while not metrics.is_file() or len(read_metrics(metrics)) < line:
            time.sleep(0.005)
        time.sleep(wait)
        for pid in drawn.sample(actors(), 1):
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    thread = threading.Thread(target=kill, daemon=True)
    thread.start()
    train(settings(model, **steps), tmp_path / "ray", console=console)
    thread.join(60)
    assert killed
    assert numbers(tmp_path / "ray") == numbers(tmp_path / "local")
    assert checkpoint.step_of(checkpoint.newest(tmp_path / "ray")[0]) == 6
    assert not vanish(actors)


def test_no_process_outlives_a_killed_run(model, tmp_path):
    (tmp_path / "run.yaml").write_text(dump(settings(model, train={"steps": 1000, "checkpoint_every": 500})))
    command = [sys.executable, "-m", "palaver", "train", str(tmp_path / "run.yaml"), "--out", str(tmp_path / "run")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        end = time.monotonic() + 240
        while not (tmp_path / "run" / "metrics.jsonl").is_file() and time.monotonic() < end:
            assert process.poll() is None
            time.sleep(0.2)
        assert len(actors()) == 2
    finally:
        process.kill()
        process.wait(60)
    assert not vanish(actors, 60.0)


def test_ctrl_c_ends_a_run_after_its_step(model, tmp_path):
    """The signal goes to every process of the terminal, those of the cluster too."""
    (tmp_path / "run.yaml").write_text(dump(settings(model, train={"steps": 1000, "checkpoint_every": 500})))
    command = [sys.executable, "-m", "palaver", "train", str(tmp_path / "run.yaml"), "--out", str(tmp_path / "run")]
    quiet_streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, start_new_session=True, **quiet_streams)
    metrics = tmp_path / "run" / "metrics.jsonl"
    try:
        end = time.monotonic() + 240
        while len(read_metrics(metrics)) < 3 and time.monotonic() < end:
            assert process.poll() is None
            time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        assert process.wait(120) == 130
    finally:
        process.kill()
        process.wait(60)
    last = max(line["step"] for line in read_metrics(metrics))
    assert checkpoint.step_of(checkpoint.newest(tmp_path / "run")[0]) == last < 1000
    assert not vanish(actors)


def test_what_the_cluster_cannot_give_is_refused_within_five_seconds(model, tmp_path):
    config = settings(model)
    wants = config.placement.model_copy(update={"gpus": 3.0})
    with ray_workers.cluster(config.placement):
        began = time.monotonic()
        with (
            pytest.raises(ConfigError, match=r"need 6 GPUs, and the Ray cluster has 0"),
            ray_workers.ray_learners(config.model_copy(update={"placement": wants}), ("a1", "a2"), tmp_path, None),
        ):
            pass
        assert time.monotonic() - began < 5


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere", "host:port"])
def test_a_wrong_address_is_refused_within_five_seconds(address):
    began = time.monotonic()
    placement = run_config("tiny").placement.model_copy(update={"address": address})
    with pytest.raises(ConfigError, match=r"placement\.address"), ray_workers.cluster(placement):
        pass
    assert time.monotonic() - began < 5


def test_a_folder_that_a_worker_does_not_see_is_refused_within_five_seconds(model, tmp_path, monkeypatch):
    """As if what the driver writes did not reach the nodes: nothing is written."""
    config = settings(model)
    with ray_workers.cluster(config.placement):
        monkeypatch.setattr(Path, "write_text", lambda *_, **__: 0)
        began = time.monotonic()
        with (
            pytest.raises(ConfigError, match="does not see the run folder"),
            ray_workers.ray_learners(config, ("a1", "a2"), tmp_path / "run", None),
        ):
            pass
        assert time.monotonic() - began < 5
    assert not (tmp_path / "run").exists()
