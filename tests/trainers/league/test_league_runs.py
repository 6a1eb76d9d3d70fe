"""Leagues by `train`: refusals before anything is loaded, runs with a model, exact resume."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from safetensors.torch import load_file

from palaver.core import ConfigError, PolicyError
from palaver.trainers.config.loading import load, parse
from palaver.trainers.run import checkpoint
from palaver.trainers.train import prepare, resume, train
from tests.trainers.placement.loopback import Loopback
from tests.trainers.toys import save_model

TIMES = {"wall_s", "cpu_s", "tokens_per_s", "time/rollout_s", "time/update_s"}
REFUSED = [
    ({"env": {"id": "echo-v0"}}, ConfigError, "those of echo-v0 do not"),
    ({"league": {"self_play": 0.5}}, ConfigError, "the pool would stay empty: set league.snapshot_every"),
    ({"team": {"kind": "lora"}}, ConfigError, "a base of its own: set team.kind=shared or separate"),
    ({"team": {"kind": "separate", "swap_every": 2}}, ConfigError, "leave both out of the team"),
    ({"team": {"kind": "separate", "frozen": {"p1": "random"}}}, ConfigError, "name fixed opponents"),
    (
        {"team": {"kind": "heterogeneous", "agents": {"p1": {"model": "tiny"}}}, "league": {"exploiters": 1}},
        ConfigError,
        "set team.kind=shared or separate",
    ),
    (
        {"algorithm": {"name": "vdn", "credit": "auto"}, "env": {"id": "matrix-v1", "game": "chicken"}},
        ConfigError,
        "vdn learns from all agents of a team together",
    ),
    ({"algorithm": {"turns": "by_agent", "discount": 0}}, ConfigError, "set algorithm.turns to tree or independent"),
    ({"algorithm": {"resample": 1}}, ConfigError, "set algorithm.resample=0"),
    ({"league": {"opponents": ["scripted:wild"]}}, PolicyError, "there is no scripted policy 'wild'"),
    ({"league": {"opponents": ["run:nowhere"]}}, ConfigError, "there is no run in 'nowhere'"),
    ({"league": {"opponents": ["p1=random"]}}, PolicyError, "has no policy for the agent 'p2'"),
    ({"league": {"matchmaking": "elo"}}, ConfigError, "league.matchmaking"),
    ({"league": {"self_play": 1.5}}, ConfigError, "league.self_play"),
    ({"kl": {"coef": 0.1, "reference": "every:0"}}, ConfigError, "1 or more"),
]


def settings(**sections):
    base = {
        "env": {"id": "kuhn-v0"},
        "policy": {"model": "tiny", "max_tokens": 4},
        "team": {"kind": "shared"},
        "league": {"self_play": 0.5, "snapshot_every": 2, "per_step": 2, "games": 2, "field": 2},
        "algorithm": {"name": "marloo", "credit": "own", "group_size": 2},
        "optim": {"lr": 1e-3},
        "train": {"steps": 4, "prompts_per_step": 4, "checkpoint_every": 2},
        "eval": {"n": 2, "samples": 1},
        "log": {"tensorboard": False},
        "threads": 1,
        "device": "cpu",
    }
    if sections.get("league") == {"self_play": 0.5}:
        base["league"] = {}
    return {key: {**base.get(key, {}), **sections[key]} if key in sections else base[key] for key in base | sections}


@pytest.mark.parametrize(("changes", "error", "text"), REFUSED)
def test_leagues_that_cannot_be_played_are_refused(changes, error, text):
    with pytest.raises(error, match=text):
        prepare(parse(settings(**changes)))


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_model(tmp_path_factory.mktemp("model"))


def lines(folder):
    records = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [{name: value for name, value in record.items() if name not in TIMES} for record in records]


@pytest.mark.parametrize("kind", ["shared", "separate"])
def test_a_run_resumes_exactly_and_is_an_opponent_of_another(tmp_path, model, kind):
    league = {"exploiters": 1, "exploiter_every": 3, "opponents": ["scripted:uniform"], "matchmaking": "pfsp"}
    sections = {
        "policy": {"model": model},
        "team": {"kind": kind},
        "league": league,
        "kl": {"coef": 0.1, "place": "reward", "reference": "every:2"},
    }
    whole = train(parse(settings(**sections)), tmp_path / "whole")
    half = train(parse(settings(**sections)), tmp_path / "half")
    last = checkpoint.folder_of(half, 4)
    (last / "manifest.json").write_text("{}")  # corrupt: the run goes on from step 2
    resume(half)
    assert lines(half) == lines(whole)
    for file in sorted((whole / "league").rglob("*.safetensors")):
        one, other = load_file(file), load_file(half / file.relative_to(whole))
        assert all(one[name].equal(other[name]) for name in one)
    names = {entry.name for entry in (whole / "checkpoints" / "step-000004" / "policies").iterdir()}
    own = {"shared"} if kind == "shared" else {"p1", "p2"}
    assert names == own | ({"exploiter-1"} if kind == "shared" else {"exploiter-1-p1", "exploiter-1-p2"})

    sections["league"] = {"self_play": 0.0, "snapshot_every": 0, "opponents": [f"run:{whole}"]}
    other = train(parse(settings(**sections)), tmp_path / "other")
    training = [line for line in lines(other) if line["kind"] == "train"]
    assert all(0 <= line["league/points"] <= 1 for line in training)
    episodes = [json.loads(line) for line in (other / "episodes" / "train-000001.jsonl").read_text().splitlines()]
    assert any(name.startswith("run:whole/") for episode in episodes for name in episode["team"].values())


@pytest.mark.parametrize(("kind", "exploiters"), [("shared", 1), ("separate", 1), ("heterogeneous", 0)])
def test_a_league_on_workers_equals_the_league_in_this_process(tmp_path, model, monkeypatch, kind, exploiters):
    lossy = Loopback(("update", 3)).install(monkeypatch)
    for placement in ("local", "ray"):
        values = settings(
            policy={"model": model},
            team={"kind": kind, **({"agents": {"p1": {"model": model}}} if kind == "heterogeneous" else {})},
            league={"exploiters": exploiters, "exploiter_every": 3, "opponents": ["scripted:uniform"]},
            kl={"coef": 0.1, "place": "reward", "reference": "every:2"},
            placement={"kind": placement},
        )
        train(parse(values), tmp_path / placement)
    assert not lossy.losses, "the worker was never lost"
    assert lines(tmp_path / "ray") == lines(tmp_path / "local")
    assert any("nash_conv" in line for line in lines(tmp_path / "ray"))
    members = sorted((tmp_path / "local" / "league").rglob("*.safetensors"))
    assert len(members) >= 3
    for file in members:
        assert file.read_bytes() == (tmp_path / "ray" / file.relative_to(tmp_path / "local")).read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 2, 3])
def test_a_killed_run_equals_one_that_was_not(tmp_path, model, at):
    values = settings(
        policy={"model": model},
        league={"exploiters": 1, "exploiter_every": 2, "snapshot_every": 1, "size": 3},
        train={"steps": 5, "checkpoint_every": 1},
    )
    whole = train(parse(values), tmp_path / "whole")
    child = [sys.executable, "-m", "palaver", "train", str(whole / "config.yaml"), "--out", str(tmp_path / "killed")]
    process = subprocess.Popen(child, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    metrics, deadline = tmp_path / "killed" / "metrics.jsonl", time.monotonic() + 240
    while not metrics.exists() or metrics.read_text().count('"kind": "train"') < at:
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    process.wait(60)
    resume(tmp_path / "killed")
    assert lines(tmp_path / "killed") == lines(whole)


def test_shipped_recipes_of_leagues():
    config = load("kuhn-league")
    assert config.league.active
    prepare(config)
