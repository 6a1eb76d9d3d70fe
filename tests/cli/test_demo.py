"""`palaver demo` end to end on a model of random weights: what it prints where nothing is learned, and its mistakes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from palaver.cli.commands import demo
from palaver.cli.commands.demo import bar


@pytest.fixture
def small(model):
    return [
        f"policy.model={model}", "policy.max_tokens=6", "algorithm.group_size=2", "train.steps=2", "eval.n=3",
        "train.prompts_per_step=1", "log.tensorboard=false",
    ]  # fmt: skip


@pytest.mark.parametrize("cores", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_second_act(palaver, small, monkeypatch, cores):
    monkeypatch.setattr(demo, "usable_cores", lambda: cores)
    ran = palaver("demo", "--act", 2, "--out", "here", "seed=4", *small)
    assert ran.code == 0, ran.err
    assert "Second act" in ran.out
    assert "First act" not in ran.out
    assert "Before training: 2 pairs that fail" in ran.out
    assert "no function f in the answer" in ran.out
    assert "The same problems after training" in ran.out
    assert "Seeds and their agreements" in ran.out
    assert ran.out.count("0 of 3") == 9  # three seeds, for none ended otherwise; before, after, and greedy
    folders = {path.name for path in Path("here").iterdir()}
    assert ("second-seed.log" in folders) == (cores == 2)
    assert folders - {"second-seed.log"} == {
        "code-seed-4",
        "code-seed-7",
        "code-seed-8",
        "comparison.html",
        "comparison.png",
    }
    status = json.loads(Path("here/code-seed-7/status.json").read_text())
    assert (status["status"], status["step"]) == ("done", 2)
    assert Path("here/code-seed-7/report.html").is_file()


@pytest.mark.slow
def test_no_third_run_where_the_second_ended_otherwise(palaver, small, monkeypatch):
    ends = iter((["map", "map"], ["list", "list"]))
    monkeypatch.setattr(demo, "_agreement", lambda _job: next(ends))
    ran = palaver("demo", "--act", 2, "--out", "here", *small, "train.steps=1", "eval.n=1")
    assert ran.code == 0, ran.err
    assert {path.name for path in Path("here").glob("code-*")} == {"code-seed-0", "code-seed-3"}


def test_the_first_act(palaver, small):
    ran = palaver("demo", "--act", 1, "--out", "here", *small, "eval.samples=1")
    assert ran.code == 0, ran.err
    assert "First act" in ran.out
    assert "mean reward (of 3)" in ran.out
    assert {path.name for path in Path("here").iterdir()} == {"writing"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--act", 3), "--act"),
        (("train.stps=3",), "unknown key 'train.stps'"),
        (("env.length=[1,2]",), "no keyword 'length'"),
    ],
)
def test_mistakes(palaver, small, arguments, message):
    ran = palaver("demo", "--out", "here", *small, *arguments)
    assert ran.code == 2
    assert message in ran.err
    assert not list(Path().glob("here/*/metrics.jsonl"))


def test_bars():
    assert bar(0.5).plain == "█████····· "
    assert bar(-1.0).plain == "·········· "
    assert bar(7.0).plain == "██████████ "
