"""Sweeps: parts, candidates kept, failures, resumption and the recipe of the best."""

from __future__ import annotations

import json

import pytest

from palaver.benchmarks.experiments import sweep as sweeping
from palaver.benchmarks.experiments.runner import TrainOutcome
from palaver.core import CheckpointError, ConfigError
from palaver.trainers.config.loading import load
from palaver.trainers.run.files import CONFIG, METRICS, STATUS, config_text

RECIPE = """
env: {id: matrix-v1, game: xor}
train: {steps: 90}
eval: {n: 2}
seed: 5
tuning: {seeds: [7]}
"""
RATES = [n / 1000 for n in range(1, 10)]
OVER = [f"optim.lr={json.dumps(RATES)}"]


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(RECIPE)
    return str(path)


@pytest.fixture
def trained(monkeypatch):
    """Runs that were trained; the evaluation after a run is what `after` says of its learning rate and steps."""
    runs = []

    def after(rate, steps):  # rate 3 leads early, rate 7 after 30 steps
        return 0.5 if (rate, steps) == (0.003, 10) else rate * steps

    def train_all(todo, folder, workers, launch, provenance):
        for run in todo:
            runs.append((run.config.optim.lr, run.config.seed, run.config.train.steps))
            path = folder / run.subfolder
            path.mkdir(parents=True)
            (path / CONFIG).write_text(config_text(run.config))
            steps, mean = run.config.train.steps, after(run.config.optim.lr, run.config.train.steps)
            if run.config.optim.lr == failing and run.config.seed == 2:
                yield run, TrainOutcome(1.0, 1.0, "out of luck")
                continue
            lines = [
                {"kind": "eval", "step": 0, "mean": 0.1, "n": 2, "tasks": 2, "by_task": {"a": 0.1, "b": 0.1}},
                {"kind": "train", "step": steps, "wall_s": 1.0, "cpu_s": 1.0, "reward/mean": mean, "completions": 4},
                {"kind": "eval", "step": steps, "mean": mean, "n": 2, "tasks": 2, "by_task": {"a": mean, "b": mean}},
            ]
            (path / METRICS).write_text("".join(json.dumps(line) + "\n" for line in lines))
            (path / STATUS).write_text(json.dumps({"status": "done"}))
            yield run, TrainOutcome(1.0, 1.0)

    failing = 0.009
    monkeypatch.setattr(sweeping, "train_all", train_all)
    return runs


def rates(runs, steps):
    return sorted({round(1000 * rate) for rate, _, at in runs if at == steps})


@pytest.mark.parametrize(
    ("candidates", "steps", "halve", "parts"),
    [
        (9, 90, 3, [(10, 9), (30, 3), (90, 1)]),
        (10, 90, 3, [(10, 10), (30, 3), (90, 1)]),
        (8, 90, 3, [(30, 8), (90, 2)]),
        (4, 3, 2, [(1, 4), (3, 2)]),
        (4, 90, 0, [(90, 4)]),
        (2, 90, 5, [(90, 2)]),
    ],
)
def test_parts(candidates, steps, halve, parts):
    assert list(map(tuple, sweeping._parts(candidates, steps, halve))) == parts


def test_the_best_are_kept_and_the_winner_is_a_recipe(recipe, trained, tmp_path):
    plan = sweeping.plan(recipe, [], OVER, [1, 2], 3)
    folder = tmp_path / "sweep"
    result = sweeping.run(plan, folder, 1, {}, lambda *_: None)
    assert rates(trained, 10) == [1, 2, 3, 4, 5, 6, 7, 8, 9]
    assert rates(trained, 30) == [3, 7, 8]  # 9 failed with one of its seeds
    assert rates(trained, 90) == [8]
    assert plan.candidates[result.best] == ("optim.lr=0.008",)
    assert result.parts[10][8] == "out of luck"
    assert len(result.comparison.groups) == 8
    found = json.loads((folder / sweeping.RESULTS).read_text())
    assert found["best"] == ["optim.lr=0.008"]
    assert found["parts"][-1]["candidates"][0]["after_by_seed"] == {"1": pytest.approx(0.72), "2": pytest.approx(0.72)}
    assert (folder / sweeping.FIGURE).stat().st_size > 1000
    best = load(str(folder / sweeping.BEST))
    assert (best.optim.lr, best.train.steps, best.seed) == (0.008, 90, 0)
    assert (best.tuning.seeds, best.tuning.tasks) == ((1, 2, 7), ("sample",))


def test_finished_runs_are_kept(recipe, trained, tmp_path):
    plan = sweeping.plan(recipe, [], ["optim.lr=[0.001,0.002]"], [1], 0)
    first = sweeping.run(plan, tmp_path / "sweep", 1, {}, lambda *_: None)
    assert len(trained) == 2
    again = sweeping.run(plan, tmp_path / "sweep", 1, {}, lambda *_: None)
    assert (len(trained), again.best) == (2, first.best)
    other = sweeping.plan(recipe, ["optim.warmup=1"], ["optim.lr=[0.001,0.002]"], [1], 0)
    with pytest.raises(ConfigError, match="other settings"):
        sweeping.run(other, tmp_path / "sweep", 1, {}, lambda *_: None)


def test_two_keys_are_a_grid(recipe, trained, tmp_path):
    over = ["optim.lr=[0.001,0.002]", "algorithm.group_size=[4,8]"]
    plan = sweeping.plan(recipe, [], over, [1], 0)
    result = sweeping.run(plan, tmp_path / "sweep", 1, {}, lambda *_: None)
    assert {group.name for group in result.comparison.groups} == {"0.001, 4", "0.001, 8", "0.002, 4", "0.002, 8"}


def test_a_sweep_whose_candidates_all_fail(recipe, trained, tmp_path):
    plan = sweeping.plan(recipe, [], ["optim.lr=[0.009]", "algorithm.group_size=[4,8]"], [2], 0)
    with pytest.raises(CheckpointError, match="every candidate failed; the first: out of luck"):
        sweeping.run(plan, tmp_path / "sweep", 1, {}, lambda *_: None)


@pytest.mark.parametrize(
    ("over", "overrides", "seeds", "halve", "message"),
    [
        ([], [], [0], 0, "at least one"),
        (["optim.lr=3"], [], [0], 0, "write a list of values"),
        (["optim.lr=[]"], [], [0], 0, "write a list of values"),
        (["optim.lr=[1e-4]"], [], [0], 0, "2 to 999 candidates, got 1"),
        (["optim.lr=[1,2]", "optim.lr=[3]"], [], [0], 0, "name each key once"),
        (["optim.rl=[1,2]"], [], [0], 0, "optim.rl"),
        (["optim.lr=[1,many]"], [], [0], 0, "optim.lr"),
        (["seed=[1,2]"], [], [0], 0, "seed is set by the sweep"),
        (["train.steps=[1,2]"], [], [0], 0, "train.steps is set by the sweep"),
        (["optim.lr=[1e-4,1e-3]"], ["eval.n=0"], [0], 0, "eval.n must not be 0"),
        (["optim.lr=[1e-4,1e-3]"], [], [0, 0], 0, "each seed once"),
        (["optim.lr=[1e-4,1e-3]"], [], [0], 1, "one in 2 or more"),
        (["algorithm.name=[magrpo,magrop]"], [], [0], 0, "magrop"),
    ],
)
def test_mistakes_are_refused_before_any_training(recipe, over, overrides, seeds, halve, message):
    with pytest.raises(ConfigError, match=message):
        sweeping.plan(recipe, overrides, over, seeds, halve)
