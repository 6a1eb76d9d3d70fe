"""Which rows are shown, which are refused and why."""

from __future__ import annotations

import pytest

from palaver.benchmarks.leaderboard.read import read
from palaver.core import ConfigError
from tests.benchmarks.leaderboard.boards import change, fill


@pytest.fixture
def folder(tmp_path):
    return fill(tmp_path)


def test_sound_rows_are_shown(folder):
    found = read(folder)
    assert found.refused == ()
    names = [each.row.name for each in found.rows]
    assert names == [
        f"{what}--{kind}" for what in ("echo-strangers-v1", "echo-v0", "matrix-v1") for kind in ("random", "reference")
    ]
    by_name = dict(zip(names, found.rows, strict=True))
    team = by_name["echo-v0--reference"]
    # 3 turns x 1.5 of 4.5
    assert (team.mean, team.low, team.high, team.share, team.what) == (4.5, 4.5, 4.5, 1.0, "echo-v0")
    focal = by_name["echo-strangers-v1--reference"]
    assert (focal.mean, focal.share, focal.what) == (4.5, 1.0, "echo-strangers-v1")  # its own, not the team's mean
    assert focal.row.mean < 4.5
    assert [len(each.samples) for each in found.rows] == [2] * 6


@pytest.mark.parametrize(
    ("facts", "says"),
    [
        ({"seed": None}, "it names no seed"),
        ({"seed": True}, "it names no seed"),
        ({"low": None}, "it has no interval"),
        ({"high": "wide"}, "it has no interval"),
        ({"commit": None}, "it names neither a commit nor a wheel"),
        ({"commit": ""}, "it names neither a commit nor a wheel"),
        ({"commit": "0123456789ab+"}, "its code differed from 0123456789ab;"),
        ({"max_reward": None}, "what can be earned at most"),
        ({"max_reward": 0}, "what can be earned at most"),
        ({"env": "echo-v9"}, "there is no environment 'echo-v9'"),
        ({"mean": 4.4}, "it states 4.4 where its episodes give 4.5: mean"),
        ({"samples": "many"}, "it is no result row: samples"),
        ({"praise": "great"}, "it is no result row: praise"),
        ({"episodes": {"file": "other.jsonl.gz", "sha256": "0", "n": 4}}, "cannot read the episodes"),
        ({"episodes": {"file": "echo-v0--random.jsonl.gz", "sha256": "0", "n": 4}}, "does not hold the episodes"),
        ({"episodes": {"file": "../../../etc/passwd", "sha256": "0", "n": 4}}, "cannot read the episodes"),
    ],
    ids=str,
)
def test_what_cannot_be_trusted_is_refused_in_one_line(folder, facts, says):
    change(folder / "echo-v0--reference.json", **facts)
    found = read(folder)
    assert [each.row.name for each in found.rows if each.row.env == "echo-v0" and not each.row.scenario] == [
        "echo-v0--random"
    ]
    (line,) = found.refused
    assert line.startswith("echo-v0--reference.json is refused: ")
    assert says in line
    assert "\n" not in line


def test_agents_in_focus_need_an_interval_too(folder):
    path = folder / "echo-strangers-v1--random.json"
    focal = {"seatings": [["a1"]], "mean": 1.0, "low": None, "high": None, "by_seating": {"a1": 1.0}}
    change(path, focal=focal)
    assert "it has no interval" in read(folder).refused[0]


def test_a_file_that_is_no_row_does_not_stop_the_others(folder):
    (folder / "a.json").write_text("{")
    (folder / "b.json").write_text("[1]")
    found = read(folder)
    assert len(found.rows) == 6
    assert [line.partition(" ")[0] for line in found.refused] == ["a.json", "b.json"]


def test_no_rows_at_all(tmp_path):
    with pytest.raises(ConfigError, match="there is no folder of rows"):
        read(tmp_path / "none")
    with pytest.raises(ConfigError, match="there is no row in"):
        read(tmp_path)
