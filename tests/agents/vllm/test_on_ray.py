"""vLLM in Ray actors: engines of workers that train, and of samplers apart from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from palaver.trainers.config.loading import parse
from palaver.trainers.config.run import RunConfig
from palaver.trainers.run import checkpoint
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import train
from tests.agents.vllm.served import SHAPE
from tests.trainers.placement.killing import kill_sampler_of_shared
from tests.trainers.placement.test_remote import numbers, quiet
from tests.trainers.toys import save_model

pytest.importorskip("ray")
AGENTS = ("a1", "a2")
LOCAL: dict[str, Any] = {"kind": "local"}
COLOCATED: dict[str, Any] = {"kind": "ray", "cpus": 0.5}
APART: dict[str, Any] = COLOCATED | {"samplers": {"place": "apart"}}


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    return save_model(tmp_path_factory.mktemp("models") / "served", **SHAPE)


def config(model: str, kind: str, placement: dict[str, Any], lead: int = 0) -> RunConfig:
    return parse(
        {
            "env": {"id": "echo-v0", "num_turns": 2},  # which workers know, too
            "policy": {"model": model, "max_tokens": 16, "engine": "vllm"},
            "team": {"kind": kind, "lora": {"rank": 4, "alpha": 8}},
            "algorithm": {"name": "magrpo", "surrogate": "clip", "group_size": 4},
            "optim": {"lr": 2e-3 if kind != "lora" else 2e-2},
            "train": {"steps": 6, "checkpoint_every": 2, "rollout_lead": lead},
            "eval": {"n": 1},
            "log": {"tensorboard": False},
            "placement": placement,
            "device": "cpu",
        }
    )


def drifts(folder: Path) -> list[float]:
    lines = [line for line in read_metrics(folder / "metrics.jsonl") if line["kind"] == "train"]
    return [line[f"{agent}/engine_drift"] for line in lines for agent in AGENTS]


@pytest.mark.parametrize(
    ("kind", "placement", "lead"),
    [("separate", COLOCATED, 0), ("separate", APART, 1), ("shared", APART, 1), ("lora", APART, 0), ("lora", APART, 1)],
    ids=["separate", "separate-apart-lead", "shared-apart-lead", "lora-apart", "lora-apart-lead"],
)
def test_a_run_in_actors_equals_the_run_in_this_process(model, tmp_path, kind, placement, lead):
    local = train(config(model, kind, LOCAL, lead), tmp_path / "local", console=quiet())
    placed = train(config(model, kind, placement, lead), tmp_path / "ray", console=quiet())
    assert numbers(placed) == numbers(local)
    assert len(drifts(placed)) == 2 * 6
    assert 0 < max(drifts(placed)) <= 1e-4
    print(f"{kind}, {placement}, lead {lead}: largest mean drift {max(drifts(placed)):.1e}")
    ours, theirs = (checkpoint.newest(folder)[0] for folder in (local, placed))
    weights = sorted(path.relative_to(ours) for path in ours.rglob("*.safetensors"))
    assert weights
    assert all((ours / path).read_bytes() == (theirs / path).read_bytes() for path in weights)


def test_a_sampler_that_is_killed_changes_no_number(model, tmp_path, monkeypatch):
    """Its engine starts again in a new actor, and gets the weights of the latest checkpoint."""
    local = train(config(model, "shared", LOCAL, 1), tmp_path / "local", console=quiet())
    killed = kill_sampler_of_shared(monkeypatch, at=4)
    placed = train(config(model, "shared", APART, 1), tmp_path / "ray", console=quiet())
    assert killed == [4]
    assert numbers(placed) == numbers(local)
