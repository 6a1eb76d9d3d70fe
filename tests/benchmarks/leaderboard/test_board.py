"""The shipped board covers the suite, and measuring goes on where it stopped."""

from __future__ import annotations

import pytest

import palaver
from palaver.benchmarks.leaderboard import board as measuring
from palaver.benchmarks.leaderboard.board import KINDS, BoardEntry, measure_all, publish, read_board
from palaver.core import ConfigError, load_attribute
from palaver.registry import COMMON
from palaver.utils.config import recipes

ECHO = """
- what: echo-v0
  n: 2
  rows: {reference: 'scripted:reference', random: random}
  missing: {untrained: x, trained: x}
"""


def test_every_environment_and_every_scenario_is_on_the_board():
    board = read_board()
    assert {entry.env for entry in board} == set(palaver.specs())
    assert {entry.what for entry in board} >= set(recipes("scenario"))
    assert len({entry.what for entry in board}) == len(board)


@pytest.mark.parametrize("entry", read_board(), ids=lambda entry: entry.what)
def test_what_is_measured_fits(entry):
    spec = palaver.spec(entry.env)
    for kind, team in entry.rows.items():
        setting = entry.setting(kind)
        assert set(setting.keywords) <= COMMON | set(spec.keywords())
        if team.startswith("scripted:"):
            name = team.removeprefix("scripted:")
            assert callable(load_attribute(name)) if ":" in name else name in spec.scripted
        if team == "tiny":
            assert spec.demonstrations
    if not spec.demonstrations:
        assert {"untrained", "trained"} <= set(entry.missing)
    assert len({str(entry.setting(kind).keywords) for kind in entry.rows}) == 1, "all kinds play the same"


def test_a_recipe_brings_its_evaluation_along():
    entry = next(entry for entry in read_board() if entry.what == "arxiv-v0")
    setting = entry.setting("trained")
    assert setting.team == "recipe:arxiv-magrpo"
    assert (setting.keywords["tasks"], setting.n, setting.samples) == ("sample[48:]", 48, 2)
    assert (setting.sampling.max_tokens, setting.sampling.temperature) == (100, 1.0)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (ECHO.replace(", trained: x", ""), "either a row or missing"),
        (ECHO.replace("untrained: x", "random: x"), "either a row or missing"),
        (ECHO.replace("n: 2", "m: 2"), "unknown key 'm'"),
        ("- [", "cannot read the board"),
        ("5", "cannot read the board"),
    ],
)
def test_a_board_that_does_not_fit_is_one_line(tmp_path, text, says):
    path = tmp_path / "board.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=says) as found:
        read_board(path)
    assert "\n" not in str(found.value)


def test_kinds_are_four():
    assert KINDS == ("reference", "random", "untrained", "trained")
    assert BoardEntry(what="arxiv-random-v2", rows={}, missing=dict.fromkeys(KINDS, "x")).env == "arxiv-v0"


def test_rows_that_are_there_are_not_measured_again(tmp_path, monkeypatch):
    path = tmp_path / "board.yaml"
    path.write_text(ECHO)
    measured, whole = [], measuring.measure

    def counted(setting, note):
        measured.append(setting.team)
        if setting.team == "random" and len(measured) == 2:
            raise KeyboardInterrupt
        return whole(setting, note)

    monkeypatch.setattr(measuring, "measure", counted)
    work, notes = tmp_path / "work", []
    with pytest.raises(KeyboardInterrupt):
        measure_all(read_board(path), work, notes.append)
    files = measure_all(read_board(path), work, notes.append)
    assert measured == ["scripted:reference", "random", "random"]
    assert [file.name for file in files] == ["echo-v0--reference.json", "echo-v0--random.json"]
    assert notes == ["1 of 2: echo-v0, reference", "2 of 2: echo-v0, random", "2 of 2: echo-v0, random"]
    publish(files, tmp_path / "rows")
    assert sorted(file.name for file in (tmp_path / "rows").iterdir()) == [
        f"echo-v0--{kind}{end}" for kind in ("random", "reference") for end in (".json", ".jsonl.gz")
    ]
    with pytest.raises(ConfigError, match=r"'echo-v1' is not on the board. Did you mean 'echo-v0'"):
        measure_all(read_board(path), work, notes.append, ["echo-v1"])
