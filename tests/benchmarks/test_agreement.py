"""What the demo's second act shows, from a run folder made by hand: no trainer, no model."""

from __future__ import annotations

import json
from xml.etree import ElementTree

import pytest
from PIL import Image

from palaver.benchmarks.reports import coding_conventions
from palaver.benchmarks.reports.run_folder import read
from palaver.benchmarks.reports.run_report import curves
from palaver.benchmarks.reports.run_report.page import write
from palaver.benchmarks.reports.summary import score
from palaver.core import Completion
from palaver.episodes import Episode, Turn
from palaver.trainers.config.run import RunConfig
from palaver.utils.config import dump

SEATS = ("aux", "main")


def metrics(solved, aux, main):
    shares = {f"{seat}_{name}": 0.0 for seat in SEATS for name in coding_conventions.CONVENTIONS}
    return shares | {f"aux_{aux}": 1.0, f"main_{main}": 1.0, "solved": float(solved)}


def episode(task, aux, main):
    solved = aux == main
    turn = Turn(
        0,
        "0/0",
        "",
        "0",
        dict.fromkeys(SEATS, 0),
        {seat: f"You write {seat}.\nf(xs) does {task}." for seat in SEATS},
        {"aux": Completion(f"def aux: {aux}"), "main": Completion(f"def f: {main}")},
        dict.fromkeys(SEATS, 2.0 * solved),
        {seat: {"solved": 2.0 * solved} for seat in SEATS},
        metrics(solved, aux, main),
        "4 of 4 tests passed" if solved else "0 of 4 tests passed; f([1]) raised TypeError",
    )
    return Episode("coding_mini_v0", task, 0, (turn,), "terminated")


BEFORE = [("t0", "map", "map"), ("t1", "map", "test"), ("t2", "list", "map"), ("t3", "test", "list")]
AFTER = [("t0", "test", "test"), ("t1", "test", "test"), ("t2", "map", "test"), ("t3", "test", "test")]


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "episodes").mkdir()
    config = RunConfig.model_validate({"train": {"steps": 10}, "env": {"id": "coding-mini-v0"}})
    (tmp_path / "config.yaml").write_text(dump(config))
    lines = []
    for step, rows in ((0, BEFORE), (10, AFTER)):
        episodes = [episode(*row) for row in rows]
        text = "".join(json.dumps(each.to_dict()) + "\n" for each in episodes)
        (tmp_path / "episodes" / f"eval-{step:06d}.jsonl").write_text(text)
        found = [each.turns[0].metrics for each in episodes]
        means = {name: sum(each[name] for each in found) / 4 for name in found[0]}
        lines.append({"kind": "eval", "step": step, "mean": 2 * means["solved"], "n": 4, "metrics": means})
    for step in range(1, 11):
        share = step / 10
        row = {f"metric/{name}": 0.0 for name in metrics(0, "map", "map")}
        row |= {f"metric/{seat}_test": share for seat in SEATS} | {f"metric/{seat}_map": 1 - share for seat in SEATS}
        row |= {"metric/solved": share, "reward/mean": 2 * share}
        lines.append({"kind": "train", "step": step, **row})
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def test_the_first_pairs_that_fail_and_the_same_problems_after(folder):
    run = read(folder)
    failed = coding_conventions.failing_pairs(run, 2)
    assert [pair.task for pair in failed] == ["t1", "t2"]
    assert failed[0].description == "f(xs) does t1."
    assert failed[0].completions == {"aux": "def aux: map", "main": "def f: test"}
    assert failed[0].reason == "0 of 4 tests passed; f([1]) raised TypeError"
    later = coding_conventions.pairs_after_training(run, failed)
    assert [(pair.task, pair.solved) for pair in later] == [("t1", True), ("t2", False)]
    assert len(coding_conventions.failing_pairs(run, 9)) == 3


def test_moments_of_training(folder):
    found = coding_conventions.training_moments(read(folder), 3)
    assert [moment.step for moment in found] == [1, 5, 10]
    assert [moment.reward for moment in found] == pytest.approx([0.2, 1.0, 2.0])
    assert [moment.solved for moment in found] == pytest.approx([0.1, 0.5, 1.0])
    assert found[1].shares["aux"] == pytest.approx({"map": 0.5, "test": 0.5, "list": 0.0})
    assert [moment.step for moment in coding_conventions.training_moments(read(folder), 1)] == [1]


def test_what_was_settled_on(folder):
    found = score(read(folder))
    assert coding_conventions.conventions_of(found.after) == {"aux": "test 75%", "main": "test 100%"}
    assert coding_conventions.solved_of(found.before) == "1 of 4"
    assert coding_conventions.solved_of(found.after) == "3 of 4"
    assert (coding_conventions.conventions_of(None), coding_conventions.solved_of(None)) == ({}, "–")


def test_a_run_that_has_just_begun(folder):
    (folder / "metrics.jsonl").write_text("")
    run = read(folder)
    assert (coding_conventions.failing_pairs(run, 2), coding_conventions.training_moments(run, 5)) == ([], [])


def test_the_shares_are_drawn_on_the_page_and_in_the_picture(folder):
    run = read(folder)
    panels = list(curves.share_panels(run).values())
    assert [panel.title for panel in panels] == [
        "What the helper is for, says aux",
        "What the helper is for, says main",
    ]
    for panel in panels:
        svg = panel.svg("x")
        ElementTree.fromstring(svg)
        assert all(f">{name}<" in svg for name in coding_conventions.CONVENTIONS)
    page = write(run).read_text(encoding="utf-8")
    assert "What the helper is for, says aux" in page
    assert "0 of 4 tests passed; f([1]) raised TypeError" in page
    assert Image.open(folder / "curve.png").size[0] > 800


def test_other_environments_have_none(fabricate):
    assert curves.share_panels(read(fabricate())) == {}


def test_an_environment_that_is_not_registered_here_has_none(folder):
    path = folder / "config.yaml"
    path.write_text(path.read_text().replace("coding-mini-v0", "mine-v0"))
    assert curves.share_panels(read(folder)) == {}
