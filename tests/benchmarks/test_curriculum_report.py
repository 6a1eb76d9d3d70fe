"""What is shown of a curriculum: the family, the tables, the page."""

from __future__ import annotations

import itertools
import json
import re
from dataclasses import replace

import pytest

from palaver.benchmarks.reports.curriculum import data, figures, page
from palaver.core import CheckpointError
from palaver.trainers.curriculum.config import parse
from palaver.trainers.curriculum.run import run
from palaver.trainers.curriculum.state import PlayerRating
from tests.trainers.curriculum.fakes import FakeBackend, values

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


def test_labels_of_the_unrated_do_not_overlap():
    """A label is 4 % of the axis high; three unrated teachers are above the rated one, apart."""
    place = PlayerRating("x", "rated", 1000.0, 950.0, 1050.0, True)
    students = [data.Member("student", "", (), {"x": replace(place, elo=0.0)}, True, True)]
    teachers = [data.Member(name, "", (), {}, False, False) for name in "abc"]
    placed = figures._positions([*teachers, data.Member("rated", "", (), {"x": place}, False, False), *students], "x")
    heights = sorted(placed[name][1] for name in ("rated", "a", "b", "c"))
    assert heights[0] == 1000
    assert min(high - low for low, high in itertools.pairwise(heights)) > 0.05 * (heights[-1] - 0)


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
