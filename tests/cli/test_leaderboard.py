from __future__ import annotations

import json
from pathlib import Path

from tests.benchmarks.leaderboard.boards import change, fill


def test_a_folder_of_rows_becomes_a_table_and_a_page(palaver):
    rows = fill(Path("rows"))
    change(rows / "echo-v0--random.json", commit="0123456789ab+")
    ran = palaver("leaderboard", "rows", "--out", "board")
    assert (ran.code, ran.err.count("\n")) == (0, 1)
    assert "echo-v0--random.json is refused: its code differed from 0123456789ab" in ran.err
    assert "5 rows, 1 refused" in ran.out
    table = Path("board/LEADERBOARD.md").read_text(encoding="utf-8")
    assert "[leaderboard.html](leaderboard.html)" in table
    assert "(../rows/echo-v0--reference.json)" in table
    assert len(list(Path("board/episodes").glob("*.html"))) == 5
    again = palaver("leaderboard", "rows", "--out", "board", "--table", "TABLE.md")
    assert again.code == 0
    assert "[board/leaderboard.html](board/leaderboard.html)" in Path("TABLE.md").read_text(encoding="utf-8")


def test_the_board_is_measured_and_goes_on(palaver):
    ran = palaver("leaderboard", "rows", "--measure", "--only", "echo-v0", "--work", "work", "--out", "board")
    assert ran.code == 0
    assert "1 of 2: echo-v0, reference" in ran.err
    found = json.loads(Path("rows/echo-v0--random.json").read_text(encoding="utf-8"))
    assert (found["label"], found["team"], found["tasks"]) == ("random", "random", 16)
    again = palaver("leaderboard", "rows", "--measure", "--only", "echo-v0", "--work", "work", "--out", "board")
    assert "of 2" not in again.err


def test_mistakes_are_one_line(palaver):
    for arguments, says in (
        (["none"], "there is no folder of rows 'none'"),
        (["rows", "--measure", "--only", "ecko-v0"], "'ecko-v0' is not on the board. Did you mean 'echo-v0'?"),
        (["rows", "--table", "no/such.md"], "--table: there is no folder 'no'"),
        (["rows", "--board", "none.yaml"], "cannot read the board 'none.yaml'"),
    ):
        ran = palaver("leaderboard", *arguments)
        assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
        assert says in ran.err
