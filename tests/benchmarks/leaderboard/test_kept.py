"""The rows that are kept: trusted, whole, shown as they are, and still paid as they were."""

from __future__ import annotations

from pathlib import Path

import pytest

import palaver
from palaver.benchmarks.evaluation import rescore
from palaver.benchmarks.leaderboard import page
from palaver.benchmarks.leaderboard.board import read_board
from palaver.benchmarks.leaderboard.page import markdown
from palaver.benchmarks.leaderboard.read import read

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "docs" / "leaderboard"


@pytest.fixture(scope="module")
def kept():
    return read(FOLDER / "rows")


def test_none_is_refused_and_none_is_missing(kept):
    assert kept.refused == ()
    wanted = {(entry.what, kind, team) for entry in read_board() for kind, team in entry.rows.items()}
    assert {(each.what, each.row.label, each.row.team) for each in kept.rows} == wanted
    assert {each.row.env for each in kept.rows} == set(palaver.specs())


def test_the_table_and_the_page_are_made_from_them(kept):
    table = markdown(kept, read_board(), "docs/leaderboard/leaderboard.html", ROOT)
    assert (ROOT / "LEADERBOARD.md").read_text(encoding="utf-8") == table
    assert (FOLDER / "leaderboard.html").read_text(encoding="utf-8") == page.board_page(kept, FOLDER)
    assert {path.stem for path in (FOLDER / "episodes").iterdir()} == {each.row.name for each in kept.rows}


def test_rows_of_one_line_played_the_same(kept):
    for what in {each.what for each in kept.rows}:
        own = [each.row for each in kept.rows if each.what == what]
        assert len({(str(row.keywords), tuple(row.by_task), row.seed, row.samples) for row in own}) == 1, what


@pytest.mark.parametrize("entry", read_board(), ids=lambda entry: entry.what)
def test_environments_still_pay_what_they_paid(entry, request):
    if entry.env == "pokemon-v1":
        request.getfixturevalue("pool")
    found = rescore.source(FOLDER / "rows" / f"{entry.what}--reference.json")
    result, _ = rescore.rescore(found, found.keywords)
    assert (result.changed, result.reobserved, result.ended, result.unscored) == (0, 0, 0, 0)
