"""The kept runs of two tiny builders say what their page says, and the environment still pays what they were paid."""

from __future__ import annotations

import json
from collections import Counter

import pytest

import palaver
from palaver.trainers.config.loading import load, parse_file
from palaver.trainers.run.logging import read_metrics
from tests.architecture.source import ROOT

RUNS = ROOT / "docs" / "runs" / "build-mini"
PAGE = (ROOT / "docs" / "building.md").read_text(encoding="utf-8")
SEEDS = range(3)
LAST = load("build-magrpo").train.steps


def episodes(seed, step):
    path = RUNS / f"seed-{seed}" / "episodes" / f"eval-{step:06}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("seed", SEEDS)
def test_the_recipe_was_run(seed):
    config = parse_file(RUNS / f"seed-{seed}" / "config.yaml")
    older = ["algorithm.factor=mean"]  # the default of then; MAGRPO has no factor
    assert config == load("build-magrpo", [f"seed={seed}", *older]).model_copy(update={"out": config.out})


@pytest.mark.parametrize("seed", SEEDS)
def test_they_learned(seed):
    lines = read_metrics(RUNS / f"seed-{seed}" / "metrics.jsonl")
    before, after = (line for line in lines if line["kind"] == "eval")
    assert (before["step"], after["step"]) == (0, LAST)
    assert before["metrics"]["iou"] < 0.6
    assert after["metrics"]["iou"] > 0.9
    row = next(line for line in PAGE.splitlines() if line.startswith(f"| {seed} |"))
    said = [f"{line['metrics'][name]:.2f}" for line in (before, after) for name in ("iou", "complete", "by_several")]
    assert Counter(said) <= Counter(row.replace("*", "").replace("|", " ").split())


@pytest.mark.parametrize("step", [0, LAST])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_environment_pays_what_it_paid(seed, step):
    env = palaver.make("build-mini-v0", tasks="sample[320:]")
    found = episodes(seed, step)
    assert [each["task"] for each in found] == [task.id for task in env.tasks]
    for each in found:
        (turn,) = each["turns"]
        told, _ = env.reset(options={"task": each["task"]})
        assert told == turn["observations"]
        _, rewards, *_ = env.step({agent: said["text"] for agent, said in turn["completions"].items()})
        assert rewards == pytest.approx(turn["rewards"])
