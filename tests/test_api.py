"""`palaver.train`, `palaver.evaluate`, `palaver.rollout` and data sets of episodes."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from dataclasses import replace

import pytest

import palaver
from palaver.agents.make_policy import make_policy
from palaver.core import CheckpointError, ConfigError, PolicyError, TaskError
from tests.plugin.palaver_crossing.env import PLACES, Crossing
from tests.plugin.palaver_crossing.policy import Always, keep_right

MODEL = {"model": "tiny", "demonstrations": "palaver.envs.matrix.corpus:demonstrations", "max_tokens": 8}
RECIPE = {
    "policy": MODEL,
    "algorithm": {"name": "magrpo", "group_size": 4},
    "train": {"steps": 2},
    "eval": {"samples": 2},
    "threads": 1,
}


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("api") / "run"
    return palaver.train(RECIPE, {"seed": 3, "optim.lr": 1e-3}, env=Crossing, out=folder, progress=False)


def test_importing_palaver_imports_no_torch():
    code = "import sys, palaver; print('torch' in sys.modules, 'transformers' in sys.modules); palaver.train"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_train(run):
    config = run.record.config
    assert (config.env.id, config.seed, config.optim.lr, config.train.steps) == ("crossing-v0", 3, 1e-3, 2)
    assert [line["step"] for line in run.metrics] == [1, 2]
    assert run.evaluations[-1]["step"] == 2
    assert len(run.episodes()) == len(PLACES) * 2
    assert repr(run) == f"Run({str(run.folder)!r}, done, 2 steps)"
    assert run.plot().size[0] > 300


def test_trained_models_load_with_transformers(run):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    assert set(run.policies) == {"a1", "a2"}
    model = AutoModelForCausalLM.from_pretrained(run.policies["a1"])
    tokenizer = AutoTokenizer.from_pretrained(run.policies["a1"])
    assert model(**tokenizer("left", return_tensors="pt")).logits.shape[-1] == model.config.vocab_size


@pytest.mark.parametrize(("env", "metric"), [("hidden-profile-v0", "majority"), ("hanabi-v0", "lives")])
def test_a_metric_of_the_last_turn_is_a_mean_over_episodes(env, metric):
    """The reference is always right, and never loses a life in these games."""
    player = make_policy("scripted:reference", scripted=palaver.spec(env).scripted)
    evaluated = palaver.evaluate(env, player, n=4)
    assert evaluated.result.metrics[metric] == sum(e.turns[-1].metrics[metric] for e in evaluated.episodes) / 4 > 0


@pytest.mark.slow
def test_trained_adapters_load_with_peft(tmp_path):
    from peft import AutoPeftModelForCausalLM

    run = palaver.train(RECIPE, {"team.kind": "lora"}, env=Crossing, out=tmp_path / "run", progress=False)
    assert AutoPeftModelForCausalLM.from_pretrained(run.policies["a2"]).peft_config


def test_an_algorithm_object(tmp_path):
    from palaver.trainers.algorithms.base import algorithm
    from palaver.trainers.algorithms.magrpo import MAGRPO

    calls = []

    def counted(returns, groups):
        calls.append(len(returns))
        return MAGRPO.baseline(returns, groups)

    mine = replace(MAGRPO, name="counted", baseline=counted, settings={"algorithm.group_size": 3, "kl.coef": 0.5})
    recipe = {**RECIPE, "algorithm": {"normalize": "std"}, "train": {"steps": 1}}
    run = palaver.train(recipe, env=Crossing, algorithm=mine, out=tmp_path / "run", progress=False)
    config = run.record.config
    assert (config.algorithm.name, config.algorithm.group_size, config.kl.coef) == ("counted", 3, 0.5)
    assert calls
    assert run.team().keys() == {"a1", "a2"}
    later = replace(mine, paper="another")  # a cell that is run again
    palaver.train(recipe, env=Crossing, algorithm=later, out=tmp_path / "later", progress=False)
    assert algorithm("counted") == later
    with pytest.raises(ConfigError, match="'magrpo' is taken"):
        palaver.train(RECIPE, env=Crossing, algorithm=replace(MAGRPO, baseline=counted), out=tmp_path / "taken")
    again = palaver.train(recipe, env=Crossing, algorithm=MAGRPO, out=tmp_path / "shipped", progress=False)
    assert again.record.config.algorithm.name == "magrpo"


def test_evaluate(run):
    always = palaver.evaluate(Crossing, {"a1": Always("left"), "a2": keep_right})
    assert always.result.mean == 1.0
    assert always.result.policies == {"a1": "always:left", "a2": "scripted"}
    assert len(always.episodes) == len(PLACES)
    assert palaver.evaluate("crossing-v0", Always("left")).result.mean == 0.0
    assert palaver.evaluate(Crossing, {"a1": Always(), "a2": keep_right}, first_left=0.25).result.mean == 0.25
    by_name = palaver.evaluate("crossing-v0", f"run:{run.folder}", samples=2).result
    by_team = palaver.evaluate("crossing-v0", run.team(), samples=2, sampling=run.record.config.policy.sampling())
    assert by_name.by_task == by_team.result.by_task
    assert by_name.weights == by_team.result.weights


def test_rollout():
    episodes = palaver.rollout(Crossing(), {"a1": Always("left"), "a2": "random"}, tasks=["door"], samples=3)
    assert [episode.task for episode in episodes] == ["door"] * 3
    assert {episode.turns[0].completions["a1"].text for episode in episodes} == {"left"}
    assert len({episode.turns[0].completions["a2"].text for episode in episodes}) == 3


def test_data_sets(run):
    episodes = run.episodes()
    dataset = palaver.to_dataset(episodes)
    assert dataset["task"] == [episode.task for episode in episodes]
    assert dataset["team_return"] == [episode.team_return() for episode in episodes]
    assert dataset[0]["returns"] == {agent: episodes[0].team_return() for agent in ("a1", "a2")}
    assert palaver.from_dataset(dataset) == episodes
    with pytest.raises(TaskError, match="no column 'record'"):
        palaver.from_dataset(dataset.remove_columns("record"))
    with pytest.raises(TaskError, match="row 0"):
        palaver.from_dataset(dataset.map(lambda row: {"record": "[]"}))
    other = dataset.map(lambda row: {"record": json.dumps(json.loads(row["record"]) | {"format": 1})})
    with pytest.raises(CheckpointError, match="format 1"):
        palaver.from_dataset(other)


def test_a_class_that_is_defined_again_replaces_the_former():
    def define(reward):
        class Again(Crossing):
            metadata = {**Crossing.metadata, "name": "again_v0"}  # noqa: RUF012
            passed = reward

        return Again

    first, second = define(1), define(2)
    assert palaver.make(first).passed == 1
    assert palaver.make(second).passed == 2
    assert palaver.make("again-v0").passed == 2

    class Rival(Crossing):
        metadata = {**Crossing.metadata, "name": "again_v0"}  # noqa: RUF012

    with pytest.raises(ConfigError, match="'again-v0' is already registered"):
        palaver.make(Rival)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: palaver.evaluate(Crossing, {"a1": "random"}), PolicyError, "'a2' has no policy"),
        (lambda: palaver.evaluate(Crossing, {"a1": "random", "a3": "random"}), PolicyError, "no agent 'a3'"),
        (lambda: palaver.evaluate(Crossing, {"a1": 1, "a2": "random"}), PolicyError, "'a1' is a int"),
        (lambda: palaver.rollout(Crossing, "random", tasks=["dor"]), PolicyError, "Did you mean 'door'"),
        (lambda: palaver.evaluate("crosing-v0"), ConfigError, "no environment 'crosing-v0'"),
        (lambda: palaver.evaluate(Crossing, "random", first_lft=1), ConfigError, "no keyword 'first_lft'"),
        (lambda: palaver.train("matrix-vdm"), ConfigError, "Did you mean 'matrix-vdn'"),
        (lambda: palaver.train(RECIPE, {"train.step": 1}, env=Crossing), ConfigError, "'train.step'"),
        (lambda: palaver.train("runs/x", {"seed": 1}, resume=True), ConfigError, "keeps its config"),
        (lambda: palaver.train("runs/nowhere", resume=True), CheckpointError, "no run in 'runs/nowhere'"),
        (lambda: palaver.Run("nowhere"), CheckpointError, "no run folder 'nowhere'"),
    ],
)
def test_mistakes(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_recipe_from_elsewhere_runs_no_code(tmp_path, monkeypatch):
    (tmp_path / "strange.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w')", encoding="utf-8")
    (tmp_path / "recipe.yaml").write_text("env: {id: 'strange:Env'}", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError, match="--trust"):
        palaver.train(tmp_path / "recipe.yaml", out=tmp_path / "run")
    assert not (tmp_path / "canary").exists()
    with pytest.raises(ConfigError, match="has no attribute 'Env'"):
        palaver.train(tmp_path / "recipe.yaml", out=tmp_path / "run", trust=True)
    assert (tmp_path / "canary").exists()


def test_a_run_folder_from_elsewhere_runs_no_code(tmp_path, monkeypatch, run):
    shutil.copytree(run.folder, tmp_path / "run")
    (tmp_path / "stranger.py").write_text(f"open({str(tmp_path / 'canary')!r}, 'w')", encoding="utf-8")
    file = tmp_path / "run" / "config.yaml"
    config = file.read_text(encoding="utf-8").replace("name: magrpo", "name: stranger:Algorithm")
    file.write_text(config, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    copied = palaver.Run(tmp_path / "run")
    assert copied.metrics == run.metrics
    copied.plot()
    with pytest.raises(ConfigError, match="--trust"):
        copied.team()
    assert not (tmp_path / "canary").exists()
    with pytest.raises(ConfigError, match="has no attribute 'Algorithm'"):
        palaver.Run(tmp_path / "run", trust=True).team()
    assert (tmp_path / "canary").exists()


def test_a_run_has_its_team_and_one_of_another_process_too(run):
    for found in (run, palaver.Run(run.folder)):
        assert set(found.team()) == {"a1", "a2"}
