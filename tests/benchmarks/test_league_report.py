"""The league in a run's report: figures without overlap, numbers as stored, files that are damaged."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from palaver.benchmarks.reports import charts
from palaver.benchmarks.reports.charts import figure
from palaver.benchmarks.reports.palette import PAPER
from palaver.benchmarks.reports.run_folder import RunFolder, read
from palaver.benchmarks.reports.run_report import page
from palaver.benchmarks.reports.run_report.league import league
from tests.overlap import overlapping_texts, texts_outside

EVALS = tuple(
    {"step": step, "nash_conv": value, "nash_conv/pool": value / 2} for step, value in ((0, 0.9), (20, 0.5), (40, 0.2))
)
TRAIN = tuple({"step": step, "league/points": 0.5, "exploiter-1/league/points": 0.6} for step in range(1, 41))


def record(players):
    rating = {"elo": 1000.0, "low": 900.0, "high": 1100.0, "bounded": True}
    points = [[0.5 if row == column else 0.25 + 0.5 * (row < column) for column in players] for row in players]
    return {
        "step": 40,
        "players": list(players),
        "points": points,
        "ratings": [rating for _ in players],
        "intransitivity": 0.25,
        "games": 12,
    }


def run_of(folder, text=""):
    (folder / "league").mkdir()
    (folder / "league" / "crossplay-000040.json").write_text(text)
    return RunFolder(folder, train=TRAIN, evals=EVALS)


@pytest.mark.parametrize("count", [2, 4, 7, 10])
def test_no_text_lies_over_another(tmp_path, count):
    names = ["scripted:uniform", *(f"main@{n * 1000}" for n in range(count - 2)), "present"]
    view = league(run_of(tmp_path, json.dumps(record(names))))
    assert set(view.drawings) == {"exploitability", "points", "crossplay"}
    for drawing in view.drawings.values():
        drawn = figure(PAPER, drawing.size, drawing.draw)
        assert (overlapping_texts(drawn), texts_outside(drawn)) == ([], [])


def test_the_picture_shows_exploitability_in_place_of_a_return_that_is_0(fabricate, monkeypatch):
    drawings = []
    monkeypatch.setattr(charts, "png", lambda drawing: drawings.append(drawing) or b"")
    page.write(replace(read(fabricate(steps=0)), evals=EVALS))
    (drawing,) = drawings
    assert drawing._suptitle.get_text().endswith(": NashConv 0.90 → 0.20 in 40 steps")
    assert [list(line.get_ydata()) for line in drawing.axes[0].lines] == [[0.9, 0.5, 0.2], [0.45, 0.25, 0.1]]


def test_numbers_are_those_of_the_last_table(tmp_path):
    view = league(run_of(tmp_path, json.dumps(record(["main@0", "present"]))))
    assert (view.step, view.games, view.intransitivity) == (40, 12, 0.25)
    assert view.ratings == [("main@0", "1000 (900 to 1100)"), ("present", "1000 (900 to 1100)")]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"players": ["a"]}', '{"players": ["a"], "ratings": [], "points": []}']
)
def test_a_damaged_table_is_left_out(tmp_path, text):
    view = league(run_of(tmp_path, text))
    assert set(view.drawings) == {"exploitability", "points"}
    assert view.step is None


def test_a_run_without_a_league_has_no_section(tmp_path):
    assert league(RunFolder(tmp_path, train=({"step": 1, "reward/mean": 0.5},))) is None
