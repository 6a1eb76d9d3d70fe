"""Every algorithm with every kind of team, one turn and two; with three agents; with every way to sample."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from palaver.core import ConfigError
from palaver.trainers.algorithms.base import ALGORITHMS
from palaver.trainers.config.defaults import fill_section
from palaver.trainers.config.loading import parse
from palaver.trainers.config.team import SHARING
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import train
from tests.trainers.toys import register_toy, save_model, save_other

WEIGHTS = ("model.safetensors", "adapter_model.safetensors")


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> tuple[str, str]:
    register_toy()
    folder = tmp_path_factory.mktemp("models")
    return save_model(folder / "qwen"), save_other(folder / "gpt2")


def iterate(
    models: tuple[str, str], folder: Path, env: dict[str, Any], kind: str, steps: int, **algorithm: Any
) -> None:
    """A short run whose every policy must move; HAPPO with one policy for all agents is refused.

    GRPO trains one agent beside a random one.
    """
    frozen = {"b": "random"} if algorithm["name"] == "grpo" else {}
    seats = {"a" if frozen else "b": {"model": models[1]}} if kind == "heterogeneous" else {}
    own = fill_section(algorithm["name"], "algorithm", {})
    swap = {"swap_every": 0} if kind == "shared" else {}
    run = parse(
        {
            "env": env, "policy": {"model": models[0], "max_tokens": 12}, "device": "cpu", "eval": {"n": 0},
            "team": {"kind": kind, "agents": seats, "lora": {"rank": 4}, "frozen": frozen} | swap,
            "critic": {"lr": 1e-3}, "optim": {"lr": 1e-3},
            "algorithm": {"group_size": 2, "discount": 0.9, **own, **algorithm},
            "kl": {"coef": 0.01},
            "train": {"steps": steps, "checkpoint_every": steps - 1}, "log": {"tensorboard": False, "episodes": False},
        }
    )  # fmt: skip
    if (algorithm["name"], kind) == ("happo", "shared"):
        with pytest.raises(ConfigError, match="no factor"):
            train(run, folder)
        return
    lines = read_metrics(train(run, folder) / "metrics.jsonl")
    assert [line["step"] for line in lines] == list(range(1, steps + 1))
    numbers = [value for line in lines for name, value in line.items() if not name.endswith("/explained")]
    assert all(math.isfinite(value) for value in numbers if isinstance(value, float))
    before, after = (folder / f"checkpoints/step-{step:06d}/policies" for step in (steps - 1, steps))
    names = sorted(each.name for each in after.iterdir())
    agents = sorted(name.removesuffix("/rows") for name in lines[0] if name.endswith("/rows"))
    assert names == (["shared"] if kind == "shared" else agents)
    for name in names:
        old, new = ({k: v for file in _weights(place / name) for k, v in file.items()} for place in (before, after))
        assert old.keys() == new.keys()
        assert any(not torch.equal(old[key], new[key]) for key in old), "the weights moved"


def _weights(folder: Path) -> list[dict[str, torch.Tensor]]:
    found = [load_file(folder / name) for name in WEIGHTS if (folder / name).is_file()]
    assert len(found) == 1, "a whole model or an adapter, not both"
    return found


@pytest.mark.parametrize("kind", list(SHARING))
@pytest.mark.parametrize("turns", [pytest.param(1, marks=pytest.mark.slow), 2])
@pytest.mark.parametrize("name", list(ALGORITHMS))
def test_matrix(models, tmp_path, kind, turns, name):
    group = {"group_size": 4} if name == "madpo" else {}  # two are often paid the same, and then there is no pair
    group |= (
        {"minibatches": 2} if name in ("dapo", "gspo", "cispo") else {}
    )  # theirs are more than a step's completions
    env = {"id": "chain-v0", "turns": 2 * turns} if name == "cory" else {"id": "lengths-v0", "turns": turns}
    env |= {"turns": turns + 1} if name == "adalign" else {}  # it needs two
    iterate(models, tmp_path / "run", env, kind, steps=3, name=name, **group)


@pytest.mark.parametrize(
    "kind", ["separate", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("shared", "lora"))]
)
@pytest.mark.parametrize("name", ["magrpo", "mappo", "happo", "iac"])
def test_three_agents(models, tmp_path, kind, name):
    env = {"id": "echo-v0", "agents": 3, "tasks": "sample[:4]"}
    iterate(models, tmp_path / "run", env, kind, steps=2, name=name)


@pytest.mark.parametrize(
    "plan",
    [{"joint": "cross"}, {"turns": "independent"}, {"turns": "best", "discount": 0.0}, {"group_by": "agent"}],
    ids=str,
)
@pytest.mark.parametrize(
    "name", ["magrpo", "mappo", *(pytest.param(name, marks=pytest.mark.slow) for name in ("marloo", "rae"))]
)
def test_plans_matrix(models, tmp_path, plan, name):
    """Every way to sample and compare, with a row of each kind of baseline."""
    iterate(models, tmp_path / "run", {"id": "lengths-v0", "turns": 2}, "separate", steps=2, name=name, **plan)
