from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from palaver.benchmarks.reports.run_folder import read
from palaver.benchmarks.reports.summary import (
    comparison,
    duration,
    key_figures,
    max_reward,
    most_possible,
    reproduce,
    sampled_tokens,
    score,
    status,
)
from palaver.registry import Spec


def append(folder: Path, **line: object) -> None:
    with (folder / "metrics.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def test_before_is_step_0_and_after_is_the_last(fabricate):
    found = score(read(fabricate(evals=(0, 15, 30))))
    assert (found.before.step, found.before.mean) == (0, 0.2)
    assert (found.after.step, found.after.mean) == (30, 2.2)
    assert (found.after.low, found.after.high, found.after.n) == (pytest.approx(2.1), pytest.approx(2.4), 64)


@pytest.mark.parametrize(("evals", "before", "after"), [((), None, None), ((0,), 0, None), ((20,), None, 20)])
def test_a_missing_evaluation_is_missing(fabricate, evals, before, after):
    found = score(read(fabricate(evals=evals)))
    assert (found.before and found.before.step, found.after and found.after.step) == (before, after)


def test_components_and_measurements_stand_side_by_side(fabricate):
    (parts, rows), (other, measured) = comparison(read(fabricate()))
    assert (parts, other) == ("Reward components", "Measurements")
    assert [row.name for row in rows] == ["structure", "style"]
    assert rows[0].before == pytest.approx(0.2 / 3)
    assert rows[0].change == pytest.approx(2.0 / 3)
    assert (measured[0].name, measured[0].before, measured[0].change) == ("off_topic", 0.125, 0.0)


def test_tokens_are_rate_times_seconds_of_each_step(fabricate):
    tokens, seconds = sampled_tokens(read(fabricate(steps=2)))
    assert seconds == pytest.approx(2.2)
    assert tokens == pytest.approx(901 * 1.1 + 902 * 1.1)


def test_figures_name_time_and_tokens(fabricate):
    figures = dict(key_figures(read(fabricate(steps=30))))
    assert figures["steps"] == "30 of 30"
    assert (figures["wall time"], figures["CPU time"]) == ("33.0 s", "1 min 00 s")
    assert figures["background: tokens per answer"] == "40 → 43"


@pytest.mark.parametrize(
    ("env", "most"),
    [
        ({"id": "arxiv-v0"}, 3.0),
        ({"id": "arxiv-v0", "weights": {"length": 5.0}}, 7.5),
        ({"id": "echo-v0", "num_turns": 2, "tasks": "gone.jsonl"}, 3.0),
        ({"id": "echo-v0", "num_turns": "two"}, None),
        ({"id": "nothing-v0"}, None),
    ],
)
def test_the_most_possible_follows_the_keywords(fabricate, env, most):
    folder = fabricate()
    (folder / "config.yaml").write_text(json.dumps({"env": env}), encoding="utf-8")
    assert max_reward(read(folder)) == most


def test_an_environment_that_does_not_say_is_asked_of_its_spec():
    assert most_possible(object(), Spec("x-v0", "", turns=4, max_reward=0.5)) == 2.0


def test_status_without_a_word_from_the_trainer(fabricate):
    assert status(read(fabricate("a", steps=30))).tone == "good"
    assert status(read(fabricate("b", steps=12, evals=(0,)))).text == "stopped or running, step 12 of 30"
    assert status(read(fabricate("c", steps=0, evals=()))).text == "no training step yet"


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ("done", "finished, 12 steps"),
        ("interrupted", "interrupted after step 12 of 30"),
        ("failed", "failed after step 12 of 30"),
        ("running", "running, step 12 of 30"),
    ],
)
def test_status_as_the_trainer_noted_it(fabricate, said, text):
    folder = fabricate(steps=12, evals=(0,))
    (folder / "status.json").write_text(json.dumps({"status": said, "step": 12, "pid": os.getpid()}), encoding="utf-8")
    assert status(read(folder)).text == text


def test_a_run_whose_process_is_gone_was_killed(fabricate):
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait(60)
    folder = fabricate(steps=12, evals=(0,))
    (folder / "status.json").write_text(json.dumps({"status": "running", "pid": gone.pid}), encoding="utf-8")
    assert status(read(folder)).text == "killed after step 12 of 30"


def test_a_number_that_is_not_finite_is_named(fabricate):
    folder = fabricate(steps=4, evals=(0,))
    append(folder, kind="train", step=5, **{"reward/mean": 0.1, "method/loss": float("nan")})
    found = status(read(folder))
    assert (found.tone, found.text) == ("bad", "stopped after step 5 of 30: method/loss is not finite")


def test_saved_rows_of_a_bad_step_are_pointed_at_until_the_run_gets_past_it(fabricate):
    folder = fabricate(steps=4, evals=(0,))
    (folder / "not-finite-000005.json").write_text("[]", encoding="utf-8")
    assert "step 5 is not finite, its rows are in not-finite-000005.json" in status(read(folder)).text
    append(folder, kind="train", step=5, **{"reward/mean": 0.1})
    assert status(read(folder)).tone == "open"


def test_the_command_is_quoted_for_a_shell(fabricate):
    folder = fabricate()
    launch = {"recipe": "arxiv-magrpo", "overrides": ["env.tasks=sample[:8]", "seed=1"]}
    (folder / "launch.json").write_text(json.dumps(launch), encoding="utf-8")
    given, saved = reproduce(read(folder))
    assert given == "palaver train arxiv-magrpo 'env.tasks=sample[:8]' seed=1"
    assert saved == f"palaver train {folder}/config.yaml --out runs/again"


def test_durations_read_well():
    assert [duration(s) for s in (0.04, 59.94, 61, 3599.6, 7320)] == [
        "0.0 s", "59.9 s", "1 min 01 s", "1 h 00 min", "2 h 02 min",
    ]  # fmt: skip
