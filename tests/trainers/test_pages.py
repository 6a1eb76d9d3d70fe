"""The algorithms' pages: computed parts are current, the worked examples are right, every logged name is explained."""

from __future__ import annotations

import re

import pytest

from palaver.trainers import pages
from palaver.trainers.algorithm import ROWS, algorithm
from palaver.trainers.config import parse
from palaver.trainers.sinks import read_metrics
from palaver.trainers.train import train
from tests.trainers.toys import SEATS, register_toy, save_model

# returns 0, 1, 1, 2: mean 1, population variance (1+0+0+1)/4 = 1/2, unbiased variance 2/3
# rows: normalize none; std, population; std, unbiased
EXAMPLES = {
    "magrpo": ["-1.00 +0.00 +0.00 +1.00", "-1.41 +0.00 +0.00 +1.41", "-1.22 +0.00 +0.00 +1.22"],
    "mareinforce": ["+0.00 +1.00 +1.00 +2.00", "+0.00 +1.41 +1.41 +2.83", "+0.00 +1.22 +1.22 +2.45"],
    "marloo": ["-1.33 +0.00 +0.00 +1.33", "-1.89 +0.00 +0.00 +1.89", "-1.63 +0.00 +0.00 +1.63"],
    "maremax": ["-2.00 -1.00 -1.00 +0.00", "-2.83 -1.41 -1.41 +0.00", "-2.45 -1.22 -1.22 +0.00"],
}


def test_every_algorithm_has_its_page():
    assert {path.stem for path in pages.FOLDER.glob("*.md")} == {*ROWS, "policy-gradient"}
    for name in ROWS:
        text = (pages.FOLDER / f"{name}.md").read_text(encoding="utf-8")
        assert re.findall(r"<!-- computed: (\w+) -->", text) == ["row", "example", "keys"]
        assert f"palaver train arxiv-{name}" in text


def test_the_pages_are_current(capsys):
    assert pages.main(["--check"]) == 0, capsys.readouterr().err


def test_a_stale_page_is_noticed_and_mended(tmp_path, monkeypatch, capsys):
    page = tmp_path / "marloo.md"
    page.write_text("before\n<!-- computed: row -->\n| old |\n<!-- end -->\nafter\n")
    monkeypatch.setattr(pages, "FOLDER", tmp_path)
    assert pages.main(["--check"]) == 1
    assert "marloo.md" in capsys.readouterr().err
    assert "| old |" in page.read_text()
    assert pages.main([]) == 0
    text = page.read_text()
    assert text.startswith("before\n<!-- computed: row -->\n| choice | value |\n")
    assert text.endswith("<!-- end -->\nafter\n")
    assert "| old |" not in text
    assert "`baselines.minus_others`" in text
    assert pages.main(["--check"]) == 0


@pytest.mark.parametrize("name", EXAMPLES)
def test_worked_examples(name):
    lines = [" ".join(line.split("|")[2:-1]).split() for line in pages.example(algorithm(name)).splitlines()]
    assert lines[2] == ["0.00", "1.00", "1.00", "2.00"]
    assert [" ".join(line) for line in lines[3:]] == EXAMPLES[name]


def test_every_logged_name_is_explained(tmp_path):
    register_toy()
    config = parse({
        "env": {"id": "lengths-v0"}, "policy": {"model": save_model(tmp_path / "m"), "max_tokens": 4},
        "algorithm": {"group_size": 2}, "train": {"steps": 1}, "eval": {"n": 1}, "device": "cpu",
        "log": {"tensorboard": False, "episodes": False},
    })  # fmt: skip
    before, step, _ = read_metrics(train(config, tmp_path / "run") / "metrics.jsonl")
    text = (pages.FOLDER / "policy-gradient.md").read_text(encoding="utf-8")
    section = text.partition("## What is logged")[2].partition("## Keys")[0]
    first = "".join(line.split("|")[1] for line in section.splitlines() if line.startswith("|"))
    explained = set(re.findall(r"`([^`]+)`", first))
    general = {re.sub(r"^(component|metric)/.*", r"\1/NAME", name) for name in step}
    general = {re.sub(rf"^({'|'.join(SEATS)})/", "AGENT/", name) for name in general}
    assert (general | set(before)) - {"kind"} == explained
