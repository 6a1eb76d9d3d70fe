"""`palaver pokemon battles` and `palaver arena --record`."""

from __future__ import annotations

import json

import pytest

from palaver.trainers.trajectories.files import Writer
from palaver.trainers.trajectories.reader import Reader
from tests.trainers.battles.made import battle, trajectory


@pytest.fixture
def recorded(tmp_path):
    with Writer(tmp_path / "battles") as writer:
        for n in range(3):
            writer.add(*battle(n))
    return tmp_path / "battles"


def test_a_folder_is_told(palaver, recorded):
    ran = palaver("pokemon", "battles", "show", recorded)
    assert ran.code == 0
    told = dict(line.split(maxsplit=1) for line in ran.out.splitlines()[:5])
    assert [told[name].strip() for name in ("battles", "trajectories", "decisions")] == ["3", "6", "27"]
    rows = [line.split() for line in ran.out.splitlines() if line.startswith(("p1-", "p2-"))]
    assert [(row[0], row[3], row[4], row[5]) for row in rows] == [
        ("p1-player", "3", "1-1-1", "12"), ("p2-player", "3", "1-1-1", "15"),
    ]  # fmt: skip


def test_one_battle_is_told(palaver, recorded):
    ran = palaver("pokemon", "battles", "show", recorded, "--battle", "1", "--side", "p2")
    assert ran.code == 0
    assert ran.out.splitlines()[0].startswith("b1: p2, p2-player against other, tied")
    assert len(ran.out.splitlines()) == 6
    assert "turn 2: move m1, of 3 actions  reward +1.33333" in ran.out
    assert r"(requested 'I say 1\ud800')" in ran.out
    assert palaver("pokemon", "battles", "show", recorded, "--battle", "b1").out.startswith("b1: p1")


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--battle", "3"], "there are 3 battles, so there is no number 3"),
        (["--battle", "b11"], "there is no battle 'b11'. Did you mean 'b1'?"),
        (["--battle", "b1", "--side", "p3"], "it has p1 and p2"),
    ],
)
def test_what_is_not_there_is_told(palaver, recorded, options, told):
    ran = palaver("pokemon", "battles", "show", recorded, *options)
    assert ran.code == 2
    assert told in ran.err


def test_a_missing_folder_and_an_empty_one_are_told(palaver, tmp_path):
    ran = palaver("pokemon", "battles", "show", "nowhere")
    assert ran.code == 2
    assert "there are no battles in 'nowhere'; record some" in ran.err
    with Writer(tmp_path / "empty"):
        pass
    assert palaver("pokemon", "battles", "show", "empty").code == 0


def test_hostile_labels_are_printed_as_they_are(palaver, tmp_path):
    with Writer(tmp_path / "battles") as writer:
        writer.add(trajectory(0, player="[bold]x[/bold]", teamset="[/]"))
    ran = palaver("pokemon", "battles", "show", "battles")
    assert ran.code == 0
    assert "[bold]x[/bold]" in ran.out


def test_an_import_names_what_is_broken(palaver, tmp_path, pool):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "gen1ou-1_1500_a_b_vs_c_08-12-2019_WIN.json").write_text(json.dumps([]), encoding="utf-8")
    ran = palaver("pokemon", "battles", "import-metamon", "in", "--out", "out")
    assert ran.code == 1
    assert "0 trajectories written to out" in ran.out
    assert "gen1ou-1_1500_a_b_vs_c_08-12-2019_WIN.json: TypeError" in ran.err
    assert "1 file broken and left out" in ran.err


def test_the_arena_records(palaver, pool):
    names = ("--players", "random@1,max_power@1", "--battles", 2, "--out", "arena")
    ran = palaver("arena", "pokemon-v1", "turn_limit=5", *names, "tournament.record_text=true", "--record", "battles")
    assert ran.code == 0, ran.err
    assert ran.out.splitlines()[-1] == "battles"
    [first, *_] = Reader("battles")
    assert "You are p1. Turn 1." in first.decisions[0].text
    shown = palaver("pokemon", "battles", "show", "battles", "--battle", 0)
    assert first.decisions[0].executed in shown.out


def test_texts_need_a_folder(palaver):
    ran = palaver("arena", "pokemon-v1", "--players", "random@1,max_power@1", "--record-text")
    assert ran.code == 2
    assert "--record-text needs --record FOLDER" in ran.err
