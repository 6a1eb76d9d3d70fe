"""All steps of MARLHF on a toy with random weights: files, resuming, refusing; recipes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from rich.console import Console

from palaver.benchmarks.experiments.marlhf import run as steps
from palaver.benchmarks.experiments.marlhf.recipe import FILE, MARLHFConfig, load
from palaver.core import ConfigError, TaskError
from palaver.trainers.preferences.record import read
from palaver.utils.config import dump, recipes
from tests.trainers.toys import forget_toy, register_toy, save_model

pytest.importorskip("trl")


@pytest.fixture
def toy(tmp_path):
    register_toy()
    yield save_model(tmp_path / "model")
    forget_toy()


def config(model: str, base: Path, **changes: Any) -> MARLHFConfig:
    base.write_text(yaml.safe_dump({"env": {"id": "lengths-v0"}, "policy": {"model": model, "max_tokens": 8}}))
    asked = {"group_size": 6, "rounds": 2, "max_tokens": 40, "most": 6}
    train = {"train": {"steps": 2, "checkpoint_every": 1}, "eval": {"n": 2}, "log": {"tensorboard": False}}
    values = {
        "pairs": {"env": {"id": "lengths-v0"}, "team": model, **asked},
        "fit": {"model": model, "batch": 8, "lr": 1e-3, "held_out": 0.5},
        "team": {"base": str(base), **train},
        "device": "cpu",
    }
    return MARLHFConfig.model_validate(values | changes)


def told(lines: list[str]) -> steps.MarlhfProgress:
    return steps.MarlhfProgress(lines.append, lambda *_: None, Console(quiet=True))


def test_every_step_and_that_none_is_done_twice(toy, tmp_path, monkeypatch):
    made, folder, lines = config(toy, tmp_path / "base.yaml"), tmp_path / "run", list[str]()
    assert [line.split(" ")[0] for line in steps.check(made)] == ["16", "magrpo"]
    found = steps.run(made, folder, told(lines))
    assert {path.name for path in folder.iterdir()} >= {
        FILE, "pairs.jsonl", "reward-model", "team", "marlhf.json", "marlhf.png"
    }  # fmt: skip
    pairs = read(str(folder / "pairs.jsonl"))
    assert {pair.source for pair in pairs} == {"env:lengths_v0"}
    assert all((pair.margin or 0) > 0 for pair in pairs)
    assert found["reward_model"]["held_out"]["tasks"] == round(0.5 * len({pair.task for pair in pairs}))
    assert [point["step"] for point in found["evaluations"]] == [0, 2]
    assert json.loads((folder / "marlhf.json").read_text()) == json.loads(json.dumps(found))
    team = yaml.safe_load((folder / "team" / "config.yaml").read_text())
    assert team["env"]["reward"] == f"rm:{folder / 'reward-model'}?device=cpu"

    for name in ("fit", "train", "resume"):
        monkeypatch.setattr(steps, name, lambda *_, **__: pytest.fail("done twice"))
    assert steps.run(load(str(folder)), folder, told(lines))["reward_model"] == found["reward_model"]
    with pytest.raises(ConfigError, match="other settings"):
        steps.run(config(toy, tmp_path / "base.yaml", seed=1), folder, told(lines))


def test_a_run_goes_on_where_it_was_killed(toy, tmp_path, monkeypatch):
    made, folder = config(toy, tmp_path / "base.yaml", team={}), tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(steps, "fit", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            steps.run(made, folder, told([]))
    before = (folder / "pairs.jsonl").read_bytes()
    monkeypatch.setattr(steps.source, "gather", lambda *_: pytest.fail("asked twice"))
    found = steps.run(load(str(folder)), folder, told([]))
    assert (folder / "pairs.jsonl").read_bytes() == before
    assert set(found) == {"reward_model"}


def test_what_cannot_work_is_refused_before_work(toy, tmp_path):
    with pytest.raises(TaskError, match="no file"):
        steps.check(config(toy, tmp_path / "b.yaml", pairs={"file": "none.jsonl"}))
    with pytest.raises(ConfigError, match="no environment"):
        steps.check(config(toy, tmp_path / "b.yaml", pairs={"env": {"id": "nothing-v0"}}))
    with pytest.raises(ConfigError, match="compares none"):
        steps.check(config(toy, tmp_path / "b.yaml", pairs={"env": {"id": "lengths-v0"}, "judge": "rm:x"}))
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes.txt").write_text("mine")
    with pytest.raises(ConfigError, match="holds something else"):
        steps.run(config(toy, tmp_path / "b.yaml"), tmp_path / "full", told([]))


@pytest.mark.parametrize("name", list(recipes("marlhf")))
def test_shipped_recipes_are_whole(name, tmp_path):
    made = load(name, ["fit.lr=0.5"])
    assert made.fit.lr == 0.5
    (tmp_path / FILE).write_text(dump(made))
    assert load(str(tmp_path)) == made
    assert (made.run() is None) == (name == "reward-model")


def test_bad_recipes_are_named(tmp_path):
    with pytest.raises(ConfigError, match="Did you mean 'batch'"):
        load("reward-model", ["fit.bach=3"])
    with pytest.raises(ConfigError, match="Did you mean 'steps'"):
        load("arxiv-marlhf", ["team.train.step=3"])
    with pytest.raises(ConfigError, match="no recipe 'arxiv'"):
        load("arxiv-marlhf", ["team.base=arxiv"])
    path = tmp_path / "mine.yaml"
    path.write_text("pairs: {group_size: 1}\n")
    with pytest.raises(ConfigError, match=r"pairs.group_size"):
        load(str(path))
    path.write_text("pairs: [")
    with pytest.raises(ConfigError, match=r"mine\.yaml: while parsing"):
        load(str(path))
    with pytest.raises(ConfigError, match="'arxiv-magrpo' is a recipe: palaver train arxiv-magrpo"):
        load("arxiv-magrpo")
