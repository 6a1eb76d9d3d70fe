"""Whole runs on the toy: the run folder, resume after a kill, corrupt checkpoints, bad input."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

import palaver
from palaver.agents.llm.model.options import ModelOptions
from palaver.core import CheckpointError, ConfigError, PolicyError
from palaver.trainers.config.loading import load, parse
from palaver.trainers.config.run import RunConfig
from palaver.trainers.rollout.team import load_run, parse_team
from palaver.trainers.run import checkpoint
from palaver.trainers.run import distributed as world
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import prepare, resume, train
from palaver.utils.config import dump
from palaver.utils.run_folder import replace_text
from tests.trainers.toys import register_toy, save_model

ROOT = Path(__file__).parents[2]
TIMINGS = ("wall_s", "cpu_s", "tokens_per_s", "time/")


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> str:
    register_toy()
    return save_model(tmp_path_factory.mktemp("model") / "m")


def config(model: str, **changes) -> RunConfig:
    values = {
        "env": {"id": "lengths-v0"},
        "policy": {"model": model, "max_tokens": 12},
        "algorithm": {"group_size": 2},
        "optim": {"lr": 1e-3},
        "train": {"steps": 6, "checkpoint_every": 2},
        "eval": {"n": 2, "every": 3},
        "log": {"tensorboard": False},
        "device": "cpu",
    }
    for key, value in changes.items():
        section, _, name = key.partition("__")
        if name:
            values.setdefault(section, {})[name] = value
        else:
            values[section] = value
    return parse(values)


def numbers(folder: Path) -> list[dict]:
    """The metrics without what a clock says."""
    lines = read_metrics(folder / "metrics.jsonl")
    return [{k: v for k, v in line.items() if not k.startswith(TIMINGS)} for line in lines]


@pytest.fixture(scope="module")
def finished(model, tmp_path_factory) -> Path:
    return train(config(model), tmp_path_factory.mktemp("runs") / "whole")


def test_the_run_folder(finished):
    lines = read_metrics(finished / "metrics.jsonl")
    assert [(line["kind"], line["step"]) for line in lines] == [
        ("eval", 0), ("train", 1), ("train", 2), ("train", 3), ("eval", 3),
        ("train", 4), ("train", 5), ("train", 6), ("eval", 6),
    ]  # fmt: skip
    assert load(str(finished / "config.yaml")).train.steps == 6
    assert json.loads((finished / "status.json").read_text())["status"] == "done"
    assert [p.name for p in sorted((finished / "checkpoints").iterdir())] == ["step-000004", "step-000006"]
    episodes = [json.loads(t) for t in (finished / "episodes" / "eval-000006.jsonl").read_text().splitlines()]
    assert len(episodes) == 2
    assert lines[1]["component/own"] + lines[1]["component/other"] == pytest.approx(lines[1]["reward/mean"])


def test_the_same_seed_gives_the_same_numbers(model, finished, tmp_path):
    assert numbers(train(config(model), tmp_path / "again")) == numbers(finished)


def test_learners_that_update_at_once_give_the_same_numbers(model, finished, tmp_path, monkeypatch):
    for cores in (1, 2):
        monkeypatch.setattr(world, "usable_cores", lambda cores=cores: cores * torch.get_num_threads())
        assert numbers(train(config(model), tmp_path / f"on-{cores}")) == numbers(finished)


def test_another_seed_gives_others(model, finished, tmp_path):
    assert numbers(train(config(model, seed=1), tmp_path / "other")) != numbers(finished)


SCRIPT = """
import sys
from pathlib import Path
from palaver.trainers.config.loading import load
from palaver.trainers.train import resume, train
from tests.trainers.toys import register_toy
register_toy()
train(load(sys.argv[1]), Path(sys.argv[2])) if sys.argv[3] == "fresh" else resume(Path(sys.argv[2]))
"""


@pytest.mark.timeout(1200)
@pytest.mark.parametrize("after", [*(pytest.param(step, marks=pytest.mark.slow) for step in (1, 3)), 5])
def test_a_killed_run_resumes_number_for_number(model, finished, tmp_path, after):
    """kill -9 at a moment after the given step was logged; the resumed metrics equal the uninterrupted ones."""
    folder = tmp_path / "killed"
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text((finished / "config.yaml").read_text(), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYTHONHASHSEED": "7"}
    command = [sys.executable, "-c", SCRIPT, str(recipe), str(folder)]
    process = subprocess.Popen([*command, "fresh"], env=environment, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 600
    while not any(x["kind"] == "train" and x["step"] >= after for x in read_metrics(folder / "metrics.jsonl")):
        assert (time.monotonic() < deadline and process.poll() is None) or process.poll() == 0
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait(60)
    subprocess.run([*command, "resume"], env=environment, check=True, stderr=subprocess.DEVNULL, timeout=400)
    assert numbers(folder) == numbers(finished)


@pytest.mark.parametrize("name", ["ippo", "happo", "rae", "cory", pytest.param("iac", marks=pytest.mark.slow)])
def test_resume_equals_the_uninterrupted_run_with_all_an_algorithm_keeps(model, tmp_path, name):
    """Critics, their optimisers and normalisation, moving means, orders of agents and minibatches."""
    trunk = "shared" if name == "iac" else "separate"
    env = {"id": "chain-v0" if name == "cory" else "lengths-v0"}
    decoupled = {"old": "learner", "mask": (0.5, 2.0)} if name == "happo" else {}
    whole = train(
        config(
            model, env=env, eval={"n": 0},
            algorithm={"name": name, "group_size": 2, "epochs": 2, "minibatches": 2, "truncate": 2.0} | decoupled,
            critic={"lr": 1e-3, "normalize": True, "minibatches": 2, "model": trunk},
        ), tmp_path / "whole",
    )  # fmt: skip
    last = checkpoint.folder_of(whole, 6)
    assert [checkpoint.version_of(last, agent) for agent in checkpoint.agents_of(last)] == [6, 6], "updates, not steps"
    cut = shutil.copytree(whole, tmp_path / "cut")
    shutil.rmtree(cut / "checkpoints" / "step-000006")
    resume(cut)
    assert numbers(cut) == numbers(whole)
    assert checkpoint.version_of(checkpoint.folder_of(cut, 6), "a") == 6
    for path in sorted((whole / "checkpoints/step-000006").rglob("*.safetensors")):
        assert (cut / path.relative_to(whole)).read_bytes() == path.read_bytes()


@pytest.mark.parametrize("kl", [0.0, 0.1])
def test_resume_equals_the_uninterrupted_run_with_and_without_a_reference(model, tmp_path, kl):
    """The model of the config is not needed any more: the start is in the checkpoint. `version` goes on counting."""
    own = str(shutil.copytree(model, tmp_path / "own"))
    whole = train(config(own, kl={"coef": kl}, eval={"n": 0}), tmp_path / "whole")
    cut = shutil.copytree(whole, tmp_path / "cut")
    shutil.rmtree(cut / "checkpoints" / "step-000006")
    shutil.rmtree(own)
    resume(cut)
    assert numbers(cut) == numbers(whole)
    for name in ("episodes/train-000006.jsonl", "checkpoints/step-000006/policies/a/model.safetensors"):
        assert (cut / name).read_bytes() == (whole / name).read_bytes()


def test_a_kill_while_a_small_file_is_written_leaves_the_old_one(tmp_path, monkeypatch):
    path = tmp_path / "metrics.jsonl"
    replace_text(path, "old\n")
    monkeypatch.setattr(Path, "replace", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        replace_text(path, "new\n")
    assert path.read_text() == "old\n"


@pytest.mark.parametrize("text", ["", "train: {steps: 3}\n"])
def test_half_a_config_is_not_resumed_as_another_run(model, finished, tmp_path, text):
    folder = shutil.copytree(finished, tmp_path / "run")
    (folder / "config.yaml").write_text(text)
    with pytest.raises(ConfigError, match="it lacks env"):
        resume(folder)


@pytest.mark.slow
def test_ctrl_c_saves_and_ends_cleanly(model, finished, tmp_path):
    folder, recipe = tmp_path / "stopped", tmp_path / "recipe.yaml"
    recipe.write_text((finished / "config.yaml").read_text().replace("steps: 6", "steps: 600"), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(recipe), str(folder), "fresh"], env=environment, stderr=subprocess.DEVNULL
    )
    deadline = time.monotonic() + 120
    while len(read_metrics(folder / "metrics.jsonl")) < 4:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=60) == 0
    status = json.loads((folder / "status.json").read_text())
    assert status["status"] == "interrupted"
    assert checkpoint.step_of(checkpoint.newest(folder)[0]) == status["step"]


def test_a_corrupt_checkpoint_is_named_and_the_one_before_is_used(model, finished, tmp_path, capsys):
    folder = train(config(model), tmp_path / "run")
    weights = next((folder / "checkpoints" / "step-000006").rglob("*.safetensors"))
    weights.write_bytes(weights.read_bytes()[:-9])
    resume(folder)
    assert "step-000006" in capsys.readouterr().err.replace("\n", "")
    assert numbers(folder) == numbers(finished)


def test_no_sound_checkpoint_is_an_error(model, tmp_path):
    folder = train(config(model, train__steps=2, eval__n=0), tmp_path / "run")
    (folder / "checkpoints" / "step-000002" / "manifest.json").write_text("{")
    with pytest.raises(CheckpointError, match="no valid checkpoint"):
        resume(folder)


def test_bad_input_is_refused_before_any_work(model, tmp_path):
    cases = [
        (config(model, algorithm={"group_size": 1}), ConfigError, "group_size must be 2 or more"),
        (config(model, algorithm={"name": "magrpoo"}), ConfigError, "Did you mean 'magrpo'"),
        (config(model, policy__temperature=0.0), ConfigError, "teaches nothing"),
        (config(model, policy__max_prompt_tokens=3), PolicyError, "at most 3 fit"),
        (config(model, policy__model="no/such-model"), PolicyError, "no/such-model"),
        (config(model, policy__model="random"), PolicyError, "no weights to train"),
        (config(model, policy__model="openai:m@http://127.0.0.1:9/v1"), PolicyError, "no weights to train"),
        (config(model, env={"id": "lengths-v9"}), ConfigError, "Did you mean 'lengths-v0'"),
        (config(model, env={"id": "lengths-v0", "turn": 2}), ConfigError, "Did you mean 'turns'"),
    ]
    for wrong, error, words in cases:
        with pytest.raises(error, match=words):
            train(wrong, tmp_path / "never")
    assert not (tmp_path / "never").exists()


@pytest.mark.parametrize(
    ("env", "held_out"), [("real.jsonl", None), ("sample.jsonl", None), ("samples[:4]", None), ("sample", "real.jsonl")]
)
def test_the_tiny_model_is_refused_on_real_data(model, tmp_path, env, held_out):
    tiny = config(model, policy__model="tiny", env={"id": "lengths-v0", "tasks": env}, eval={"n": 1, "tasks": held_out})
    with pytest.raises(PolicyError, match=r"policy\.force=true"):
        train(tiny, tmp_path / "never")
    assert prepare(tiny.model_copy(update={"policy": tiny.policy.model_copy(update={"force": True})}))


def test_a_trained_team_is_loaded_as_it_was_trained(model, finished, tmp_path):
    folder = shutil.copytree(finished, tmp_path / "run")
    text = (folder / "config.yaml").read_text()
    (folder / "config.yaml").write_text(text.replace("max_prompt_tokens: 4096", "max_prompt_tokens: 77"))
    (folder / "checkpoints" / "step-000006" / "manifest.json").write_text('{"files": []}')
    notes = []
    team = load_run(folder, ["a", "b"], ModelOptions(device="cpu"), notes.append)
    assert [policy.options.max_prompt_tokens for policy in team.values()] == [77, 77]
    assert [policy.name for policy in team.values()] == ["run:run/a@4", "run:run/b@4"]
    assert len(notes) == 1
    assert "step-000006" in notes[0]
    with pytest.raises(CheckpointError, match="there is no run"):
        load_run(tmp_path / "nope", ["a"], ModelOptions())


def test_one_name_or_a_name_for_each_seat(model):
    spec, known = palaver.spec("lengths-v0"), {"options": ModelOptions(device="cpu"), "source": "sample"}
    team = parse_team("a=random,b=echo", spec, ["a", "b"], **known)
    assert [policy.name for policy in team.values()] == ["random", "echo"]
    assert [policy.name for policy in parse_team("echo", spec, ["a", "b"], **known).values()] == ["echo", "echo"]
    for wrong in ("random,echo", "a=random,echo", "random,"):
        with pytest.raises(PolicyError, match="AGENT=POLICY,AGENT=POLICY"):
            parse_team(wrong, spec, ["a", "b"], **known)
    with pytest.raises(PolicyError, match="two policies for the agent 'a': 'random' and 'echo'"):
        parse_team("a=random,a=echo", spec, ["a", "b"], **known)


def test_a_folder_with_another_run_is_not_overwritten(model, finished):
    with pytest.raises(ConfigError, match="already holds a run"):
        train(config(model), finished)


def test_nothing_to_resume(model, tmp_path):
    with pytest.raises(CheckpointError, match="no run"):
        resume(tmp_path / "empty")


def test_weights_and_biases_offline_keeps_one_id_across_resumes(model, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_SILENT", "true")
    log = {"tensorboard": True, "wandb": "offline"}
    folder = train(config(model, log=log, train={"steps": 2, "checkpoint_every": 1}, eval={"n": 0}), tmp_path / "run")
    first = (folder / "wandb_id").read_text()
    shutil.rmtree(folder / "checkpoints" / "step-000002")
    resume(folder)
    assert (folder / "wandb_id").read_text() == first
    offline = [p.name for p in (folder / "wandb").glob("offline-run-*")]
    assert offline
    assert all(name.endswith(first) for name in offline)
    assert list((folder / "tb").glob("events*"))


@pytest.mark.slow  # three processes; sums over processes are held in the tests of what is summed
@pytest.mark.parametrize(
    ("kind", "name"),
    [("shared", "magrpo"), *(("separate", name) for name in ("magrpo", "mappo", "happo", "rae", "cory"))],
)
def test_two_processes_do_what_one_does(model, tmp_path, kind, name):
    """Tasks dealt to two gloo processes: the same rewards, and losses equal up to the order of summation."""
    recipe = tmp_path / "recipe.yaml"
    how = {"magrpo": "none", "rae": "batch"}.get(name, "whiten")
    rounding = 1e-6 if name == "magrpo" else 1e-5  # whitened losses cancel to it
    run = config(
        model, env={"id": "chain-v0" if name == "cory" else "lengths-v0"}, team={"kind": kind},
        train={"steps": 3, "prompts_per_step": 4}, eval={"n": 0},
        algorithm={"name": name, "group_size": 2, "order": "fixed", "normalize": how},
        critic={"lr": 1e-3, "normalize": True}, kl={"coef": 0.1, "place": "advantage"} if name == "happo" else {},
    )  # fmt: skip
    recipe.write_text(dump(run), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    script = tmp_path / "script.py"
    script.write_text(SCRIPT, encoding="utf-8")
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    command = [*launch, str(script), str(recipe), str(tmp_path / "two"), "fresh"]
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=400)
    one, two = numbers(train(run, tmp_path / "one")), numbers(tmp_path / "two")
    assert len(one) == len(two) == 3
    for a, b in zip(one, two, strict=True):
        assert a["reward/mean"] == pytest.approx(b["reward/mean"], rel=1e-9)
        keys = ["a/loss", "b/loss", "a/grad_norm", "b/rows", "groups/zero_advantage", "return/target"]
        for key in (*keys, *(key for key in a if key in ("critic/joint/loss", "critic/joint/grad_norm"))):
            assert a[key] == pytest.approx(b[key], rel=1e-4, abs=rounding), key


def test_learning(model, tmp_path):
    """The toy pays small letters: MAGRPO makes two random models write more of them, far beyond the intervals."""
    run = config(
        model, env={"id": "letters-v0"}, algorithm={"group_size": 8, "normalize": "std"}, optim={"lr": 1e-2},
        train={"steps": 25}, policy={"model": model, "max_tokens": 24}, eval={"n": 8, "samples": 4},
    )  # fmt: skip
    lines = [line for line in numbers(train(run, tmp_path / "run")) if line["kind"] == "eval"]
    assert lines[0]["high"] < 0.3
    assert lines[-1]["low"] > 0.5
