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
from palaver.trainers.config.placement import PlacementConfig
from palaver.trainers.league.pool import MAIN
from palaver.trainers.league_loop import LeagueLoop
from palaver.trainers.placement import ray_workers
from palaver.trainers.run import checkpoint
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import train
from palaver.utils.config import dump
from tests.trainers.placement.killing import kill, kill_sampler_of_shared
from tests.trainers.placement.test_remote import numbers, run_config
from tests.trainers.toys import register_toy, save_model

ray = pytest.importorskip("ray")
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


LEAGUE = {"self_play": 0.5, "snapshot_every": 1, "exploiters": 1, "exploiter_every": 2, "games": 1, "field": 2}
SELF_PLAY = {
    "league": LEAGUE,
    "algorithm": {"name": "marloo", "credit": "own"},
    "kl": {"coef": 0.1, "place": "reward", "reference": "every:2"},
    "train": {"steps": 4, "prompts_per_step": 4},
}


@pytest.fixture(scope="module")
def nodes():
    """Address of a cluster of two nodes on this machine, with one CPU each."""
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1})
    try:
        cluster.add_node(num_cpus=1)
        cluster.wait_for_nodes()
        yield cluster.address
    finally:
        cluster.shutdown()


@pytest.mark.parametrize("loss", ["none", "actor"])
def test_a_league_on_two_nodes_equals_the_league_in_this_process(model, tmp_path, nodes, monkeypatch, loss):
    """Each policy fills a node; one is lost in the third rollout."""

    def league(placement):
        return run_config(model, "marloo", "separate", placement, env={"id": "kuhn-v0"}, **SELF_PLAY)

    train(league("local"), tmp_path / "local", console=quiet())
    roll, seen = LeagueLoop.rolled, set()

    def watched(self, step, team):
        for policy in team.values() if self.role == MAIN else ():
            node = policy.shared_engine.actor.__ray_call__.remote(lambda _: ray.get_runtime_context().get_node_id())
            seen.add(ray.get(node))
        if step == 3 and loss == "actor" and "lost" not in seen:
            os.kill(actors()[0], signal.SIGKILL)
            seen.add("lost")
        return roll(self, step, team)

    monkeypatch.setattr(LeagueLoop, "rolled", watched)
    config = league("ray")
    placement = config.placement.model_copy(update={"address": nodes})
    train(config.model_copy(update={"placement": placement}), tmp_path / "ray", console=quiet())
    assert len(seen - {"lost"}) == 2
    assert ("lost" in seen) == (loss == "actor")
    assert numbers(tmp_path / "ray") == numbers(tmp_path / "local")
    assert any("nash_conv" in line for line in numbers(tmp_path / "ray"))
    for path in sorted((tmp_path / "local" / "league").rglob("*.safetensors")):
        assert path.read_bytes() == (tmp_path / "ray" / path.relative_to(tmp_path / "local")).read_bytes()
    assert not vanish(actors)


def apart(config):
    """The same run with samplers in actors of their own; half a CPU each, so that two cores have room for four."""
    placement = {"kind": "ray", "cpus": 0.5, "samplers": {"place": "apart", "cpus": 0.5}}
    return config.model_copy(update={"placement": PlacementConfig.model_validate(placement)})


AHEAD = {"algorithm": {"name": "magrpo", "surrogate": "clip"}, "train": {"steps": 4, "rollout_lead": 1}}


@pytest.mark.parametrize(("kind", "lead"), [("separate", 0), ("shared", 1), ("lora", 1)])
def test_a_run_with_samplers_apart_equals_the_run_in_this_process(model, tmp_path, kind, lead):
    local = settings(model, "magrpo", kind, "local", **(AHEAD if lead else {}))
    train(local, tmp_path / "local", console=quiet())
    train(apart(local), tmp_path / "ray", console=quiet())
    assert numbers(tmp_path / "ray") == numbers(tmp_path / "local")
    ours, theirs = (checkpoint.newest(tmp_path / folder)[0] for folder in ("local", "ray"))
    for path in ours.rglob("*.safetensors"):
        assert path.read_bytes() == (theirs / path.relative_to(ours)).read_bytes()
    overlaps = [line.get("time/overlap_s") for line in read_metrics(tmp_path / "ray" / "metrics.jsonl")]
    assert sum(overlap is not None for overlap in overlaps) == (3 if lead else 0)
    assert not vanish(actors)


@pytest.mark.parametrize("seed", range(KILLS))
@pytest.mark.parametrize("place", ["colocated", "apart"])
def test_a_killed_actor_changes_no_number(model, tmp_path, seed, place):
    """An actor is killed at a random time between the start of the loop and its end."""
    lead = seed % 2 if place == "apart" else 0
    steps = {"train": {"steps": 6, "checkpoint_every": 2, "prompts_per_step": 2, "rollout_lead": lead}}
    local = settings(model, placement="local", **(AHEAD | steps))
    train(local, tmp_path / "local", console=quiet())
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
    made = apart(local) if place == "apart" else settings(model, **(AHEAD | steps))
    train(made, tmp_path / "ray", console=console)
    thread.join(60)
    assert killed
    assert numbers(tmp_path / "ray") == numbers(tmp_path / "local")
    assert checkpoint.step_of(checkpoint.newest(tmp_path / "ray")[0]) == 6
    assert not vanish(actors)


@pytest.mark.parametrize("lead", [0, 1])
def test_a_killed_sampler_changes_no_number(model, tmp_path, monkeypatch, lead):
    """The sampler ends in the rollout of step 4; the run goes on from the latest checkpoint."""
    steps = {"train": {"steps": 6, "checkpoint_every": 2, "rollout_lead": lead}, "eval": {"n": 0}}
    local = settings(model, kind="shared", placement="local", **(AHEAD | steps))
    train(local, tmp_path / "local", console=quiet())
    killed = kill_sampler_of_shared(monkeypatch, at=4)
    console = quiet()
    train(apart(local), tmp_path / "ray", console=console)
    assert killed
    said = "the worker 'sampler of shared' is gone (during 'act'); going on from step 2 with new workers"
    assert said in " ".join(console.file.getvalue().split())
    assert numbers(tmp_path / "ray") == numbers(tmp_path / "local")
    assert not vanish(actors)


@pytest.mark.parametrize("end", ["learner", "sampler"])
def test_a_transfer_from_or_to_a_lost_worker_ends_the_attempt(model, tmp_path, end):
    config = apart(settings(model, kind="shared"))
    with (
        ray_workers.cluster(config.placement),
        ray_workers.ray_learners(config, ("a1", "a2"), tmp_path, None) as (learner,),
    ):
        learner.send_weights()
        host = learner._host if end == "learner" else learner.policy.shared_engine
        kill(host)
        with pytest.raises(ray_workers.PlacementLostError, match="is gone"):
            learner.send_weights()


def long_run(model, place):
    """A run of two actors: a learner for each agent, or one and its sampler, whose rollouts overlap with updates."""
    steps = {"steps": 1000, "checkpoint_every": 500}
    if place == "colocated":
        return settings(model, train=steps)
    return apart(settings(model, kind="shared", **(AHEAD | {"train": steps | {"rollout_lead": 1}})))


@pytest.mark.parametrize("place", ["colocated", "apart"])
def test_no_process_outlives_a_killed_run(model, tmp_path, place):
    (tmp_path / "run.yaml").write_text(dump(long_run(model, place)))
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


@pytest.mark.parametrize("place", ["colocated", "apart"])
def test_ctrl_c_ends_a_run_after_its_step(model, tmp_path, place):
    """The signal goes to every process of the terminal, those of the cluster too."""
    (tmp_path / "run.yaml").write_text(dump(long_run(model, place)))
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


def test_a_sampler_that_has_no_room_is_refused_within_five_seconds(model, tmp_path):
    config = apart(settings(model))
    samplers = config.placement.samplers.model_copy(update={"gpus": 1.0})
    placement = config.placement.model_copy(update={"samplers": samplers})
    with ray_workers.cluster(placement):
        began = time.monotonic()
        line = r"^the workers of this run need 2 GPUs, .* has 0: lower placement\.gpus or placement\.samplers\.gpus,"
        with (
            pytest.raises(ConfigError, match=line),
            ray_workers.ray_learners(config.model_copy(update={"placement": placement}), ("a1", "a2"), tmp_path, None),
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
