"""Policies sharded over two gloo processes by FSDP2, against one process; refusals."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from palaver.agents.llm.policies.sharded_policy import shard
from palaver.core import ConfigError, PolicyError
from palaver.trainers.algorithms.base import chosen
from palaver.trainers.checks import refuse_contradictions
from palaver.trainers.config.loading import parse
from palaver.trainers.run import checkpoint
from palaver.trainers.run.distributed import Distributed
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import resume, train
from palaver.utils.config import dump
from tests.models import tiny_qwen3
from tests.trainers.sharded_script import updates
from tests.trainers.toys import register_toy, save_model

ROOT = Path(__file__).parents[2]
DECOUPLED = {"old": "learner", "truncate": 2.0, "mask": [0.5, 5]}
# three tasks for two processes, and passes of a few rows: the first process makes more of them
RUNS = {
    "separate": {"algorithm": DECOUPLED, "kl": {"coef": 0.1, "place": "loss"}},
    "shared": {
        "team": {"kind": "shared"},
        "algorithm": {"surrogate": "clip", "epochs": 2, "entropy": 0.01},
        "kl": {"coef": 0.1, "place": "reward", "reference": "step:1"},
        "train": {"gradient_checkpointing": True},
    },
}


def settings(model, **sections):
    values = {
        "env": {"id": "lengths-v0", "turns": 2},
        "policy": {"model": model, "max_tokens": 6},
        "algorithm": {"name": "magrpo", "group_size": 2},
        "optim": {"lr": 1e-3},
        "train": {"steps": 3, "checkpoint_every": 1, "keep": 3, "prompts_per_step": 3, "micro_tokens": 60},
        "eval": {"n": 1},
        "log": {"tensorboard": False},
        "placement": {"shard": "fsdp2"},
        "device": "cpu",
    }
    return parse(values | {key: values.get(key, {}) | value for key, value in sections.items()})


def losses(folder, after=0):
    """Losses and norms of the steps after one."""
    lines = [line for line in read_metrics(folder / "metrics.jsonl") if line["kind"] == "train"]
    keys = [key for key in lines[0] if key.endswith(("/loss", "/grad_norm", "/rows", "/drift", "reward/mean"))]
    return [{key: line[key] for key in keys} for line in lines if line["step"] > after]


def assert_close(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert one == pytest.approx(other, rel=1e-5, abs=1e-5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs of one process as `one-NAME` and of two as `two-NAME`; what the script left."""
    register_toy()
    place = tmp_path_factory.mktemp("sharded")
    model = save_model(place / "m")
    for name, sections in RUNS.items():
        config = settings(model, **sections)
        train(config, place / f"one-{name}")
        (place / f"{name}.yaml").write_text(dump(config))
    shutil.copytree(place / "one-separate", place / "cut")
    for step in (2, 3):
        shutil.rmtree(checkpoint.folder_of(place / "cut", step))
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    script = ROOT / "tests" / "trainers" / "sharded_script.py"
    ended = subprocess.run([*launch, str(script), str(place)], env=environment, capture_output=True, timeout=900)
    assert ended.returncode == 0, ended.stderr.decode()[-4000:]
    return place


@pytest.mark.slow  # two processes
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", RUNS)
def test_sharded_runs_have_the_losses_of_one_process(folder, name):
    assert_close(losses(folder / f"two-{name}"), losses(folder / f"one-{name}"))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_a_checkpoint_of_shards_is_that_of_one_process(folder):
    """Names, formats and groups; one process resumes it, and two resume one of a single process."""
    one, two = (checkpoint.folder_of(folder / f"{count}-separate", 2) for count in ("one", "two"))
    for name in ("a", "b"):
        ours, theirs = (load_file(place / f"policies/{name}/model.safetensors") for place in (one, two))
        torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-4)
        ours, theirs = (torch.load(place / f"optimizers/{name}.pt", weights_only=True) for place in (one, two))
        assert theirs["param_groups"] == ours["param_groups"]
        torch.testing.assert_close(theirs["state"], ours["state"], rtol=1e-3, atol=1e-6)
    ours, theirs = (torch.load(place / "updater.pt", weights_only=True)["pulls"] for place in (one, two))
    torch.testing.assert_close(theirs, ours, rtol=0, atol=1e-6)
    assert_close(losses(folder / "cut"), losses(folder / "one-separate"))
    shutil.copytree(folder / "two-separate", folder / "alone")
    shutil.rmtree(checkpoint.folder_of(folder / "alone", 3))
    resume(folder / "alone")
    assert_close(losses(folder / "alone", 2), losses(folder / "one-separate", 2))


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_uneven_and_empty_rows_hang_no_process(folder):
    """The first process alone has rows that count, so that its numbers are those of one process."""
    alone = updates(Distributed("cpu", "fp32"))
    two = json.loads((folder / "two.json").read_text())
    assert "not finite" in alone[3].pop("error")
    assert "not finite" in two[3].pop("error")
    for statistics in (*alone, *two):
        statistics.pop("rows", None)  # the row of no advantage counts in the second process
    assert_close(
        [{k: v for k, v in each.items() if v is not None} for each in two],
        [{k: v for k, v in each.items() if v is not None} for each in alone],
    )


@pytest.mark.parametrize(
    ("sections", "match"),
    [
        ({"team": {"kind": "lora"}}, "adapters are small"),
        ({"placement": {"kind": "ray"}}, "starts workers of one process each"),
        ({"algorithm": {"name": "mappo"}}, "mappo has critics"),
        ({"algorithm": {"name": "ippo"}}, "ippo has critics"),
        ({"algorithm": {"name": "qmix"}}, "qmix has a mixer"),
        ({"algorithm": {"name": "madpo"}, "kl": {"coef": 0.1}}, "madpo has pairs"),
        ({"kl": {"coef": 0.1, "reference": "lag:2"}}, "keeps no weights of earlier steps"),
    ],
)
def test_refusals(sections, match):
    run = settings("tiny", **sections)
    with pytest.raises(ConfigError, match=match):
        refuse_contradictions(run, chosen(run.algorithm), 2, 1)


def test_a_model_without_a_head_apart_is_refused():
    model = tiny_qwen3(0)
    model.config.logit_scale = 2.0
    with pytest.raises(PolicyError, match=r"Qwen3ForCausalLM is not made so: set placement\.shard=none"):
        shard(model, 2)
