"""What is shown of a curriculum: the family, the tables, the page."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from palaver.benchmarks.reports import charts
from palaver.benchmarks.reports.curriculum import data, figures, page
from palaver.benchmarks.reports.palette import PAPER
from palaver.core import CheckpointError
from palaver.trainers.curriculum.config import parse
from palaver.trainers.curriculum.run import run
from palaver.trainers.curriculum.state import PlayerRating
from tests.overlap import overlapping_texts
from tests.trainers.curriculum.fakes import FakeBackend, values

KEPT = Path(__file__).parents[2] / "docs" / "runs" / "battler"
MADE = {"palaver": "0", "commit": "<b>c</b>", "python": "3", "platform": "p"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("report")
    spec = values()
    spec["stages"][1]["gate"] = {"score": {"veteran@1": 1.0}, "sure": False}  # not to be passed: three attempts
    run(parse(spec), place / "run", FakeBackend(place / "work"))
    return place / "run"


@pytest.fixture(scope="module")
def found(folder):
    return data.read(folder, MADE)


def test_the_family(found):
    family = {member.label: member for member in found.family()}
    assert list(family) == [
        "typed@1", "random@1", "veteran@1", "first", "second", "second.2", "second.3", "third",
    ]  # fmt: skip
    assert [family[name].parent for name in ("first", "second", "second.2", "second.3")] == [
        "", "first", "second", "second.2",
    ]  # fmt: skip
    promoted = [name for name, member in family.items() if member.promoted]
    assert promoted[0] == "first"
    assert promoted[-1] == "third"
    assert len(promoted) == 3
    assert family["third"].parent == promoted[1]
    assert set(family["third"].places) == {"sample:train", "sample:held-out"}
    assert not family["typed@1"].student


def test_the_untaught_are_those_that_no_ancestor_learnt_from(found):
    last = found.verdicts[-1]
    assert found.untaught(last) == []
    assert found.untaught(found.verdicts[0]) == ["veteran@1"]


def members(kept: dict) -> list[data.Member]:
    """The family as `curriculum.json` holds it."""
    return [
        data.Member(**each | {"places": {name: PlayerRating(**place) for name, place in each["places"].items()}})
        for each in kept["family"]
    ]


def family_figure(family, teamset):
    return charts.figure(PAPER, (8, 4), lambda chart: figures.draw_tree(chart, family, teamset))


def test_members_without_a_rating_are_named_and_not_drawn():
    """The kept curriculum: three of its teachers were never rated."""
    family = members(json.loads((KEPT / "curriculum.json").read_text()))
    drawing = family_figure(family, "sample:train")
    (axes,) = drawing.axes
    elos = {member.elo("sample:train") for member in family} - {None}
    assert {float(y) for line in axes.lines for y in line.get_ydata()} <= elos
    dots = [line for line in axes.lines if line.get_marker() == "o"]
    assert sum(len(line.get_xdata()) for line in dots if len(line.get_xdata()) == 1) == len(elos) == 5
    shown = " ".join(axes.get_xlabel().split())
    assert shown == (
        "Without a rating: max_power@1 (taught heuristics); typed@1 (taught heuristics); search@1 (taught search)"
    )
    assert overlapping_texts(drawing) == []


@pytest.mark.parametrize("spread", [0.0, 3.0, 200.0])
def test_names_of_members_do_not_overlap(spread):
    place = PlayerRating("x", "rated", 1000.0, 950.0, 1050.0, True)
    family = [
        data.Member(f"player-{n}", "", (), {"x": replace(place, elo=1000.0 + spread * n)}, n > 3, False)
        for n in range(9)
    ]
    assert overlapping_texts(family_figure(family, "x")) == []


def test_figures_have_no_label_over_another(found):
    for stem, drawing in page._drawings(found).items():
        assert overlapping_texts(charts.figure(PAPER, drawing.size, drawing.draw)) == [], stem


def test_the_tables(found):
    titled = {table.title: table for table in page.report_tables(found)}
    assert all(len(row) == len(table.head) for table in titled.values() for row in table.rows)
    assert [row[0] for row in titled["Stages"].rows] == ["first", "second", "second.2", "second.3", "third"]
    assert titled["Stages"].rows[0][-1] == "passed"
    assert "not passed, promoted" in [row[-1] for row in titled["Stages"].rows]
    assert [row[0] for row in titled["Family"].rows][:3] == ["first", "  └ second", "    └ second.2"]
    gate = next(row for row in titled["Gates"].rows if row[0] == "second")
    check = found.verdicts[1].checks[0]
    assert gate[2] == f"{100 * check.found:.1f}"
    assert gate[-1] == "no"
    place = found.verdicts[-1].elo("third", "sample:held-out")
    assert f"{place.elo:.0f} [{place.low:.0f}, {place.high:.0f}]" in titled["Family"].rows[-1]
    assert len(titled["Generalisation gap"].rows) == 8
    assert "| third |" in titled["Stages"].markdown()


def test_the_page_stands_alone(found, folder):
    paths = page.write(found, folder)
    assert {path.name for path in paths} == {
        "curriculum.json", "report.html", "report.md", "curve-loss.png", "ratings.png", "family.png", "matrix.png",
    }  # fmt: skip
    assert all(path.stat().st_size for path in paths)
    text = (folder / "report.html").read_text()
    assert "<script" not in text
    assert "&lt;b&gt;c" in text
    assert text.count("<svg") == 3
    for heading in ("Ratings", "Family", "Generalisation gap", "Scores on sample:held-out", "Gates"):
        assert re.search(rf"<h2>{heading}", text), heading
    numbers = json.loads((folder / "curriculum.json").read_text())
    assert numbers["over"]
    assert numbers["promoted"]["third"] == "third"


def test_one_that_has_only_begun_has_a_page(tmp_path):
    spec = parse(values())
    run(
        spec.model_copy(update={"stages": spec.stages[:1]}),
        tmp_path / "run",
        FakeBackend(tmp_path / "work"),
        rated=False,
    )
    begun = data.read(tmp_path / "run", MADE)
    page.write(begun, tmp_path / "run")
    assert [table.title for table in page.report_tables(begun)] == ["Stages", "Family"]


def test_no_curriculum_no_report(tmp_path):
    with pytest.raises(CheckpointError, match="there is no curriculum in"):
        data.read(tmp_path, MADE)


def test_a_folder_kept_without_its_attempts_keeps_its_report(found, folder, tmp_path):
    page.write(found, folder)
    kept = tmp_path / "kept"
    kept.mkdir()
    for name in ("curriculum.yaml", "curriculum.json", "metrics.jsonl"):
        shutil.copy(folder / name, kept)
    report = data.read(kept, MADE)
    assert report.standings == found.standings
    assert report.state.promoted == found.state.promoted
    assert [table.markdown() for table in page.report_tables(report)] == [
        table.markdown() for table in page.report_tables(found)
    ]
    page.write(report, kept)
    for name in ("curriculum.json", "report.md", "report.html"):
        assert (kept / name).read_text() == (folder / name).read_text()


@pytest.mark.parametrize("change", [{"attempts": None}, {"arena": {"tables": []}}, {"attempts": [{"stage": "first"}]}])
def test_a_damaged_last_report_is_refused_and_left(found, folder, tmp_path, change):
    page.write(found, folder)
    shutil.copy(folder / "curriculum.yaml", tmp_path)
    damaged = json.dumps(json.loads((folder / "curriculum.json").read_text()) | change)
    (tmp_path / "curriculum.json").write_text(damaged)
    with pytest.raises(CheckpointError, match=r"curriculum\.json' holds no report of a curriculum"):
        data.read(tmp_path, MADE)
    assert (tmp_path / "curriculum.json").read_text() == damaged
