"""`palaver experiment curriculum`: recipes, plans, mistakes, and a run with a backend that takes no time."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
import yaml

from palaver.trainers.curriculum import ablation
from palaver.trainers.curriculum import backend as workshop
from palaver.trainers.curriculum.config import load
from palaver.utils.config import values as changed
from tests.trainers.curriculum.fakes import FakeBackend, values

ROOT = Path(__file__).parents[2]


@pytest.fixture
def file(tmp_path, monkeypatch):
    """A curriculum whose backend is the fake one."""

    def backend(_spec):
        made = FakeBackend(tmp_path / "work")
        made.check = lambda: None
        return made

    monkeypatch.setattr(workshop, "Backend", backend)
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(values()))
    return path


def test_recipes(palaver):
    told = palaver("experiment", "curriculum", "run").out
    assert "gen1ou-nano" in told
    assert "not run yet" in told


def test_a_dry_run_tells_battles_and_time_and_writes_nothing(palaver, file, tmp_path):
    ran = palaver("experiment", "curriculum", "run", file, "--dry-run", "--out", tmp_path / "run")
    assert ran.code == 0, ran.err
    assert re.search(r"About \d+ minutes in \d+ processes", ran.out)
    assert "nothing was kept" in ran.out
    assert not (tmp_path / "run").exists()


def test_a_run_ends_with_its_tables_and_goes_on_when_called_again(palaver, file, tmp_path):
    out = tmp_path / "run"
    ran = palaver("experiment", "curriculum", "run", file, "--out", out, "--no-rehearse")
    assert ran.code == 0, ran.err
    for heading in ("Plan", "Stages", "Gates", "Family", "Ratings on sample:held-out", "Generalisation gap"):
        assert heading in ran.out
    assert str(out / "report.html") in ran.out
    work = (tmp_path / "work").read_text()
    assert palaver("experiment", "curriculum", "run", out).code == 0, "the folder is a curriculum too"
    assert (tmp_path / "work").read_text() == work
    again = palaver("experiment", "curriculum", "report", out)
    assert again.code == 0
    assert "Family" in again.out


def test_who_passes_no_gate_ends_with_1(palaver, file, tmp_path):
    gate = "stages.first.gate={score: {veteran@1: 1.0}, sure: false}"
    ran = palaver(
        "experiment",
        "curriculum",
        "run",
        file,
        gate,
        "stages.first.repeats=0",
        "--out",
        tmp_path / "run",
        "--no-rehearse",
    )
    assert ran.code == 1
    assert "no attempt passed the gate of first" in ran.err


def test_an_ablation(palaver, file, tmp_path):
    vary = ["--vary", "stages.second.mix.old=0,1", "--out", tmp_path / "mixes"]
    ran = palaver("experiment", "curriculum", "ablate", file, *vary)
    assert ran.code == 0, ran.err
    assert "Ablation of stages.second.mix.old" in ran.out
    assert (tmp_path / "mixes" / "ablation.png").is_file()
    assert palaver("experiment", "curriculum", "report", tmp_path / "mixes").code == 0


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["run", "gen1ou-nono"], "there is no curriculum 'gen1ou-nono'"),
        (["run", "gen1ou-nano", "stages.vetran.epochs=2"], "Did you mean 'veteran'"),
        (["run", "gen1ou-nano", "sede=2"], "unknown key 'sede'. Did you mean 'seed'"),
        (["ablate", "gen1ou-nano", "--vary", "mix.old", "--out", "x"], "write --vary key=a,b,c"),
        (["report", "nowhere"], "there is no curriculum in"),
    ],
)
def test_mistakes_are_one_line(palaver, arguments, told):
    ran = palaver("experiment", "curriculum", *arguments)
    assert ran.code == 2
    assert told in ran.err
    assert len(ran.err.strip().splitlines()) == 1


def test_the_pages_curricula_can_be_read():
    """The recipes, keys and variations of every command that a page shows."""
    seen = 0
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for line in re.findall(
            r"^\s*(?:\$ )?palaver experiment curriculum (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE
        ):
            command, *words = shlex.split(line, comments=True)
            if command not in ("run", "ablate") or not words or words[0].startswith("runs/"):
                continue
            pairs = [word for word in words[1:] if "=" in word and words[words.index(word) - 1] != "--vary"]
            if command == "run":
                load(words[0], pairs)
            else:
                ablation.plan(changed("curriculum", words[0], pairs), words[words.index("--vary") + 1])
            seen += 1
    assert seen
