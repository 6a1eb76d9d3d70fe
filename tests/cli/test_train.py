from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from palaver.cli import folders, output
from palaver.core import CheckpointError, ConfigError
from palaver.trainers.config.loading import load
from palaver.trainers.run.files import begin
from palaver.utils.config import recipes


def started(path: str) -> Path:
    folder = Path(path)
    folder.mkdir(parents=True)
    begin(folder, load("arxiv-magrpo", ["train.steps=7"]))
    return folder


def test_without_a_recipe_they_are_listed(palaver):
    ran = palaver("train")
    assert ran.code == 0
    assert all(name in ran.out for name in recipes("run"))


def explained(ran) -> dict[str, list[str]]:
    """Key -> the words behind it."""
    return {line.split()[0]: line.split()[1:] for line in ran.out.splitlines() if line.strip()}


def test_explain_shows_every_key_and_where_its_value_came_from(palaver):
    """HAPPO sets 5 epochs, lambda .95 and normalised values; arxiv-mappo 2 epochs, arxiv-happo plain values."""
    ran = palaver("train", "arxiv-happo", "--explain", "optim.lr=0.25", "env.gated=false", "critic.huber=null")
    rows = explained(ran)
    assert rows["optim.lr"] == ["0.25", "5e-06", "command", "line"]
    assert rows["env.gated"] == ["False", "–", "command", "line"]
    assert rows["algorithm.gae_lambda"] == ["0.95", "0.95", "0.95", "name", "happo"]
    assert rows["algorithm.epochs"] == ["2", "1", "5", "base", "arxiv-mappo"]
    assert rows["algorithm.group_size"] == ["8", "4", "base", "arxiv-magrpo"]
    assert rows["critic.normalize"] == ["False", "False", "True", "recipe", "arxiv-happo"]
    assert rows["critic.huber"] == ["–", "–", "10", "command", "line"]
    first, _, others = ran.out.partition("All other keys")
    assert "\ntrain.keep " not in first
    assert "\ntrain.keep " in others
    assert "\noptim.lr " not in others
    assert not Path("runs").exists()


def test_explain_of_a_recipe_file_and_of_a_run(palaver):
    Path("mine.yaml").write_text("algorithm: {name: cory}\nkl: {coef: 0.2}\n", encoding="utf-8")
    rows = explained(palaver("train", "mine.yaml", "--explain", "algorithm.epochs=1"))
    assert rows["team.swap_every"] == ["5", "0", "5", "name", "cory"]
    assert rows["kl.place"] == ["reward", "loss", "reward", "name", "cory"]
    assert rows["kl.coef"] == ["0.2", "0", "recipe", "mine.yaml"]
    assert rows["algorithm.epochs"] == ["1", "1", "4", "command", "line"]
    started("runs/old")
    rows = explained(palaver("train", "--resume", "runs/old", "--explain"))
    assert rows["train.steps"] == ["7", "100", "recipe", "runs/old/config.yaml"]


def test_explain_cuts_no_key_on_a_narrow_terminal(palaver, monkeypatch):
    monkeypatch.setattr(output.console, "width", 80)
    shown = palaver("train", "arxiv-cory", "--explain").out
    assert "algorithm.normalize " in shown
    assert "policy.max_prompt_tokens " in shown


@pytest.mark.parametrize(("kind", "says"), [("separate", "one for each agent"), ("shared", "one for all agents")])
def test_a_dry_run_of_legal_actions_names_no_model(palaver, kind, says):
    ran = palaver("train", "matrix-vdn", "--dry-run", f"team.kind={kind}")
    assert ran.code == 0
    assert f"values of legal actions, no model, {says}" in ran.out
    assert "tiny" not in ran.out


def test_a_dry_run_checks_and_writes_nothing(palaver):
    ran = palaver(
        "train", "arxiv-magrpo", "--dry-run", "env.tasks=sample[:3]", "eval.tasks=sample[3:5]", "--out", "here"
    )
    assert ran.code == 0
    assert "3 training tasks, 2 evaluation tasks" in ran.out
    assert not Path("here").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["arxiv-magrop"], "Did you mean 'arxiv-magrpo'?"),
        (["nope.yaml"], "there is no recipe file 'nope.yaml'"),
        (["bad.yaml"], "bad.yaml"),
        (["arxiv-magrpo", "optim.lrr=1"], "unknown key 'optim.lrr'. Did you mean 'lr'?"),
        (["arxiv-magrpo", "train.steps=many"], "train.steps"),
        (["arxiv-magrpo", "train.steps=0"], "train.steps"),
        (["arxiv-magrpo", "steps"], "write key=value"),
        (["arxiv-magrpo", "[=1"], "write key=value"),
        (["arxiv-magrpo", "--resume"], "there is no run of 'arxiv-magrpo'"),
        (["--resume", "nope"], "neither a run folder nor a recipe 'nope'"),
        (["arxiv-magrpo", "--resume", "a", "b"], "takes one run folder"),
        (["arxiv-magrpo", "--resume", "nope"], "'nope' does not exist"),
        (["runs/old"], "add --resume"),
        (["arxiv-magrpo", "--out", "runs/full"], "already holds a run"),
        (["arxiv-magrpo", "--out", "bad.yaml"], "is a file"),
        (["arxiv-magrpo", "env.tasks=nope.jsonl"], "there is no file 'nope.jsonl'"),
        (["arxiv-magrpo", "env.lenght=3"], "Did you mean 'length'?"),
        (["arxiv-magrpo", "env.id=arxive-v0"], "Did you mean 'arxiv-v0'?"),
        (["arxiv-magrpo", "algorithm.name=magrop"], "Did you mean 'magrpo'?"),
        (["arxiv-magrpo", "algorithm.group_size=1"], "group_size must be 2 or more"),
        (["arxiv-magrpo", "--dry-run", "algorithm.group_size=1"], "group_size must be 2 or more"),
        (["arxiv-magrpo", "--dry-run", "policy.temperature=0"], "teaches nothing"),
        (["arxiv-magrpo", "--dry-run", "eval.tasks=bad.yaml"], "bad.yaml"),
        (["arxiv-magrpo", "policy.model=random", "eval.tasks=sample[:2]"], "has no weights to train"),
        (["arxiv-magrpo", "policy.model=/no/such", "eval.tasks=sample[:2]"], "there is no"),
        (["arxiv-magrpo", "env.length.lo=1"], "arxiv-magrpo: "),
        (["--resume"], "--resume needs a run folder"),
        (["--resume", "runs/old", "--out", "runs/new"], "stays where it is"),
        (["tldr-magrpo", "--resume", "runs/old"], "is one of 'arxiv-magrpo', not of 'tldr-magrpo'"),
    ],
)
def test_mistakes_are_one_line_before_any_work(palaver, arguments, says):
    Path("bad.yaml").write_text("train: [unclosed", encoding="utf-8")
    started("runs/old")
    (started("runs/full") / "metrics.jsonl").touch()
    Path("runs/old/launch.json").write_text('{"recipe": "arxiv-magrpo"}', encoding="utf-8")
    before = sorted(Path("runs").rglob("*"))
    ran = palaver("train", *arguments)
    *notes, error = ran.err.splitlines()
    assert (ran.code, ran.out) == (2, "")
    assert error.startswith("error: ")
    assert says in error
    assert [note for note in notes if not note.startswith("run folder ")] == []
    assert sorted(Path("runs").rglob("*")) == before


def test_a_new_run_gets_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(time, "strftime", lambda _: "20260102-030405")
    job = folders.plan("arxiv-magrpo", ["seed=3"], resume=False, out=None)
    assert (str(job.folder), job.config.seed, job.resume) == ("runs/arxiv-magrpo-20260102-030405", 3, False)
    job.folder.mkdir(parents=True)
    assert folders.plan("arxiv-magrpo", [], resume=False, out=None).folder.name == "arxiv-magrpo-20260102-030405-2"


def test_the_folder_may_be_named_by_option_or_by_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert folders.plan("arxiv-magrpo", ["out=there"], resume=False, out=None).folder == Path("there")
    assert folders.plan("arxiv-magrpo", ["out=there"], resume=False, out=Path("here")).folder == Path("here")


def test_resume_means_the_newest_run_of_the_recipe(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = ["arxiv-magrpo-20260101-000001", "arxiv-magrpo-20260101-000002", "arxiv-magrpo-qwen3-20260301-000000"]
    for number, name in enumerate(names):
        os.utime(started(f"runs/{name}") / "config.yaml", (1000 + number, 1000 + number))
    job = folders.plan("arxiv-magrpo", [], resume=True, out=None)
    assert (job.folder.name, job.config.train.steps, job.resume) == (names[1], 7, True)


@pytest.mark.parametrize(("recipe", "items"), [("runs/mine", []), ("arxiv-magrpo", ["runs/mine"])])
def test_resume_of_a_named_run(tmp_path, monkeypatch, recipe, items):
    monkeypatch.chdir(tmp_path)
    started("runs/mine")
    assert folders.plan(recipe, items, resume=True, out=None).folder == Path("runs/mine")


def test_a_resumed_run_keeps_its_config(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    started("runs/mine")
    assert folders.plan("runs/mine", ["train.steps=7"], resume=True, out=None).config.train.steps == 7
    with pytest.raises(ConfigError, match=r"keeps its config: train\.steps is 7 there, not 9"):
        folders.plan("runs/mine", ["train.steps=9"], resume=True, out=None)
    with pytest.raises(ConfigError, match=r"keeps its config: env\.gated is None there, not False"):
        folders.plan("runs/mine", ["env.gated=false"], resume=True, out=None)


def test_resume_of_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(CheckpointError, match="it holds no config"):
        folders.plan("empty", [], resume=True, out=None)
    with pytest.raises(ConfigError, match="there is no recipe"):
        folders.plan("empty", [], resume=False, out=None)
    assert json.dumps(os.listdir()) == '["empty"]'
