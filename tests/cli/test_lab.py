from __future__ import annotations

from pathlib import Path

import pytest

from palaver.benchmarks.experiments.matrix_games import recipe, study
from palaver.benchmarks.experiments.matrix_games.results import Lab, MatrixGameResult
from palaver.cli.groups import lab as command
from palaver.core import CheckpointError

FEW = ["lab.games=[xor]", "lab.algorithms=[magrpo,rae]", "lab.seeds=2"]


@pytest.fixture
def never(monkeypatch):
    monkeypatch.setattr(study, "run", lambda *_: pytest.fail("ran"))


@pytest.mark.usefixtures("never")
def test_it_is_listed_and_explained(palaver):
    assert "lab " in palaver("train").out
    ran = palaver("train", "lab", "--explain", "lab.seeds=3", "optim.lr=0.25")
    rows = {line.split()[0]: line.split()[1:] for line in ran.out.splitlines() if line.strip()}
    assert rows["lab.seeds"][0] == "3"
    assert rows["optim.lr"][0] == "0.25"
    assert rows["env.id"][0] == "matrix-v1"
    assert not Path("runs").exists()


@pytest.mark.usefixtures("never")
def test_a_dry_run_counts_and_writes_nothing(palaver):
    ran = palaver("train", "lab", "--dry-run", *FEW, "--out", "here")
    assert ran.code == 0
    assert "2 algorithms x 1 game x 2 seeds = 4 runs, 0 of them done already" in ran.out
    assert (
        "without cory: it takes turns"
        in palaver("train", "lab", "--dry-run", *FEW, "lab.without.cory=it takes turns").out
    )
    assert not Path("here").exists()


@pytest.mark.usefixtures("never")
@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["lab", "lab.games=[xorr]"], "Did you mean 'xor'?"),
        (["lab", "xor"], "write key=value"),
        (["lab", "lab.gams=[xor]"], "unknown key 'lab.gams'. Did you mean 'games'?"),
        (["lab", "policy.temperature=0", "lab.algorithms=[magrpo]"], "teaches nothing"),
        (["lab", "--resume"], "there is no laboratory 'lab'"),
        (["lab", "env.game=xor"], "lab.games=[...]"),
    ],
)
def test_mistakes_are_one_line(palaver, arguments, says):
    ran = palaver("train", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: ")
    assert says in ran.err
    assert len(ran.err.splitlines()) == 1
    assert not Path("runs").exists()


def lab_of(work, *statuses):
    found = [
        MatrixGameResult(
            cell.algorithm, cell.game, cell.seed, status, 0.5, 1.0 if status == "done" else None, error="it broke"
        )
        for cell, status in zip(work.plan.cells, statuses, strict=True)
    ]
    provenance = {"palaver": "1", "commit": "c", "python": "3", "platform": "p"}
    return Lab(work.plan.algorithms, work.plan.columns, tuple(found), provenance, 1.0)


@pytest.mark.parametrize(("last", "code"), [("done", 0), ("failed", 1)])
def test_the_table_and_the_exit_code(palaver, monkeypatch, last, code):
    def run(work, provenance, report):
        assert work.folder == Path("there")
        work.folder.mkdir()
        lab = lab_of(work, "done", "done", "done", last)
        report(lab.results[-1])
        return lab

    monkeypatch.setattr(study, "run", run)
    ran = palaver("train", "lab", *FEW, "out=there", "lab.cores=2")
    assert ran.code == code
    lines = [line.split() for line in ran.out.splitlines()]
    assert ["optimum", "1.00"] in lines
    assert ["magrpo", "1.00"] in lines
    assert ["100", "%"] in lines
    assert ["2", "of", "2"] in lines
    assert ("it broke" in ran.err) == (code == 1)
    assert {path.name for path in Path("there").iterdir()} == {"lab.html", "lab.png"}


def test_interrupted(palaver, monkeypatch):
    def run(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(study, "run", run)
    ran = palaver("train", "lab", *FEW, "--out", "there")
    assert ran.code == 130
    assert "resume with: palaver train --resume there" in ran.err


def test_which_laboratory_is_meant(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("lab-20260101-000000", "lab-20260102-000000"):
        (Path("runs") / name).mkdir(parents=True)
        (Path("runs") / name / "lab.yaml").write_text(recipe.shipped())
    newest = "runs/lab-20260102-000000"
    assert command.named("lab", [], False) == "lab"
    assert command.named("lab", ["seed=1", newest], True) == newest
    assert command.named(newest, [], True) == newest
    assert command.named("arxiv-magrpo", ["seed=1"], False) is None
    (Path(newest) / "lab.yaml").touch()
    assert command._newest("lab") == Path(newest)
    with pytest.raises(CheckpointError, match="there is no laboratory 'mine'"):
        command._newest("mine.yaml")
