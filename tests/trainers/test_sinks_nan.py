"""A number that is not one is null in the metrics file, which stays JSON, and is left out of TensorBoard."""

from __future__ import annotations

import json
import math
from types import SimpleNamespace

from palaver.trainers.config.loading import parse
from palaver.trainers.run.logging import RunLogger, read_metrics


def test_nan_is_null(tmp_path):
    sinks = RunLogger(tmp_path, parse({"log": {"tensorboard": False, "episodes": False}}), 0)
    seen = []
    sinks.boards.append(SimpleNamespace(scalars=lambda values, step: seen.append((values, step)), close=lambda: None))
    sinks.write("train", 1, {"critic/joint/explained": math.nan, "reward/mean": 0.5})
    sinks.write("eval", 1, {"mean": 0.25, "by_task": {"t": 0.25}})
    sinks.close()

    def refuse(word):
        raise AssertionError(word)

    text, evaluated = sinks.metrics.read_text().splitlines()
    assert json.loads(text, parse_constant=refuse)["critic/joint/explained"] is None
    assert read_metrics(sinks.metrics)[0]["reward/mean"] == 0.5
    assert seen == [({"reward/mean": 0.5}, 1), ({"eval/mean": 0.25}, 1)], "a curve for every task would bury the others"
    assert json.loads(evaluated)["by_task"] == {"t": 0.25}
