"""`palaver arena`: what it prints, writes, goes on with and refuses."""

from __future__ import annotations

import re
import resource
import sys
from pathlib import Path

import pytest

from palaver.registry import spec
from palaver.trainers.matches import play as match
from palaver.trainers.matches.config import left_out, read_players
from palaver.trainers.matches.results import read_games

DILEMMA = ("matrix-v1", "game=prisoners-dilemma", "repeats=2")


def test_a_table_and_its_files(palaver):
    ran = palaver("arena", *DILEMMA, "--players", "legal,first,last", "-n", "4")
    assert ran.code == 0, ran.err
    assert re.search(r"last +1\d\d\d .*\n.*legal +1000 +anchor", ran.out)
    folder = next(Path("runs").glob("arena-matrix-v1-*"))
    files = {"arena.md", "arena.csv", "pairs.csv", "arena.json", "arena.png", "games.jsonl", "settings.json", ".lock"}
    assert {path.name for path in folder.iterdir()} == files
    assert all(str(folder / name) in ran.out for name in ("arena.md", "arena.png"))
    again = palaver("arena", *DILEMMA, "--players", "legal,first,last", "-n", "4", "--resume")
    assert again.out == ran.out
    assert len((folder / "games.jsonl").read_text(encoding="utf-8").splitlines()) == 12


def test_team_sets_show_the_gap(palaver):
    ran = palaver("arena", *DILEMMA, "-p", "legal,uniform", "-n", "8", "--teamsets", "sample[:3], sample[3:6]")
    assert re.search(r"Ratings on sample\[:3\] .*\n(.*\n)+?8 games, ", ran.out)
    assert re.search(r"Ratings on sample\[3:6\] .*\n(.*\n)+?8 games, ", ran.out)
    assert "Generalisation gap" in ran.out


def test_a_dry_run_counts_and_writes_nothing(palaver):
    ran = palaver("arena", *DILEMMA, "--players", "legal,first,last", "-n", "100", "--jobs", "2", "--dry-run")
    assert ran.code == 0
    assert "300 games to play, about" in ran.out
    assert "in 2 processes" in ran.out
    assert "± 10 points" in ran.out
    assert not Path("runs").exists()


def test_all_are_the_players_whose_extras_are_installed(monkeypatch):
    pokemon = spec("pokemon-v1")
    monkeypatch.setitem(sys.modules, "poke_env", None)
    players = read_players("all", pokemon)
    assert {"random@1", "veteran@1", "reference"} <= set(players)
    assert not [name for name in players if name.startswith("poke-env:")]
    assert set(left_out(pokemon).values()) == {"poke-env"}
    assert "poke-env:RandomPlayer" in read_players("all,poke-env:RandomPlayer", pokemon)  # it is refused when it plays
    monkeypatch.setattr("palaver.trainers.matches.config.missing", lambda _: [])
    assert set(read_players("all", pokemon)) == set(players) | {name for name in pokemon.players if ":" in name}


def test_ctrl_c_says_how_to_go_on(palaver, monkeypatch):
    record, seen = match._record, []

    def until(*arguments):
        seen.append(arguments)
        if len(seen) > 5:
            raise KeyboardInterrupt
        return record(*arguments)

    monkeypatch.setattr(match, "_record", until)
    arguments = ("arena", *DILEMMA, "-p", "legal,last", "-n", "10", "tournament.parallel=1", "--out", "here")
    ran = palaver(*arguments)
    assert ran.code == 130
    assert "--resume --out here" in ran.err
    assert len(Path("here/games.jsonl").read_text(encoding="utf-8").splitlines()) == 5
    monkeypatch.setattr(match, "_record", record)
    assert "10 games" in palaver(*arguments, "--resume").out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("arxiv-v0",), "not competitive"),
        (("matrix-v1",), "gives its agents equal rewards"),
        ((*DILEMMA, "--players", "legal"), "two players or more"),
        ((*DILEMMA, "--players", "legal,lgal"), "Did you mean 'legal'"),
        ((*DILEMMA, "--games", "7"), "even number"),
        ((*DILEMMA, "--anchor", "lst"), "Did you mean 'last'"),
        ((*DILEMMA, "--teamsets", "none.jsonl"), "no file 'none.jsonl'"),
        ((*DILEMMA, "--resume"), "there is no arena of matrix-v1"),
        ((*DILEMMA, "--agent", "a=run:nowhere"), "there is no run in 'nowhere'"),
    ],
)
def test_mistakes_are_one_line(palaver, arguments, said):
    ran = palaver("arena", *arguments)
    assert ran.code == 2
    assert said in ran.err
    assert len([line for line in ran.err.splitlines() if line.startswith("error:")]) == 1
    assert ran.out == ""


def test_a_full_disk_is_one_line_and_the_arena_goes_on_where_it_was(palaver):
    """The system's limit on the size of a file stands for the disk: `games.jsonl` has room for some lines."""
    arguments = ("arena", *DILEMMA, "-p", "legal,uniform", "-n", "20", "--out")
    assert palaver(*arguments, "whole").code == 0
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2000, before[1]))
    try:
        ran = palaver(*arguments, "here")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert ran.code == 2
    (line,) = [line for line in ran.err.splitlines() if line.startswith("error: ")]
    assert "cannot write 'here/games.jsonl': File too large; what was complete is kept; make room, then" in line
    assert "Traceback" not in ran.err
    text = Path("here/games.jsonl").read_text(encoding="utf-8")
    assert text.endswith("\n")
    assert 0 < text.count("\n") < 20
    assert palaver(*arguments, "here", "--resume").code == 0
    played = [
        sorted((each.game, each.task, each.score, each.turns) for each in read_games(Path(folder, "games.jsonl")))
        for folder in ("whole", "here")
    ]
    assert played[0] == played[1]
    assert len(played[0]) == 20
