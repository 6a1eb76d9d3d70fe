"""Two tiny builders learn to share out a house, from teaching to the last step."""

from __future__ import annotations

import pytest

from palaver.trainers.config.loading import load
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.train import train


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_the_recipe_learns(tmp_path, monkeypatch):
    monkeypatch.setenv("PALAVER_CACHE", str(tmp_path / "cache"))
    folder = train(load("build-magrpo", ["log.tensorboard=false", "log.episodes=false"]), tmp_path / "run")
    before, after = (line for line in read_metrics(folder / "metrics.jsonl") if line["kind"] == "eval")
    assert before["metrics"]["iou"] < 0.6
    assert after["metrics"]["iou"] > 0.9
    assert after["metrics"]["by_several"] < 0.15
