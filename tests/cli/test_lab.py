from __future__ import annotations

from pathlib import Path

import pytest

from palaver.benchmarks.experiments.matrix_games import study
from palaver.benchmarks.experiments.matrix_games.plan import load
from palaver.benchmarks.experiments.matrix_games.results import Lab, MatrixGameResult

FEW = ["lab.games=[xor]", "lab.algorithms=[magrpo,rae]", "lab.seeds=2"]


@pytest.fixture
def never(monkeypatch):
    monkeypatch.setattr(study, "run", lambda *_: pytest.fail("ran"))


@pytest.mark.usefixtures("never")
def test_it_is_listed_and_explained(palaver):
    ran = palaver("experiment", "matrix-games", "--explain", "lab.seeds=3", "optim.lr=0.25")
    rows = {line.split()[0]: line.split()[1:] for line in ran.out.splitlines() if line.strip()}
    assert rows["lab.seeds"][0] == "3"
    assert rows["optim.lr"][0] == "0.25"
    assert rows["env.id"][0] == "matrix-v1"
    assert not Path("runs").exists()


@pytest.mark.usefixtures("never")
def test_a_dry_run_counts_and_writes_nothing(palaver):
    ran = palaver("experiment", "matrix-games", "--dry-run", *FEW, "--out", "here")
    assert ran.code == 0
    assert "2 algorithms x 1 game x 2 seeds = 4 runs, 0 of them done already" in ran.out
    assert (
        "without cory: it takes turns"
        in palaver("experiment", "matrix-games", "--dry-run", *FEW, "lab.without.cory=it takes turns").out
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
        (["lib"], "there is no laboratory 'lib'; name a shipped one or a .yaml file. Did you mean 'lab'?"),
        (["lab", "env.game=xor"], "lab.games=[...]"),
    ],
)
def test_mistakes_are_one_line(palaver, arguments, says):
    ran = palaver("experiment", "matrix-games", *arguments)
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
    ran = palaver("experiment", "matrix-games", *FEW, "out=there", "lab.cores=2")
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
    ran = palaver("experiment", "matrix-games", *FEW, "--out", "there")
    assert ran.code == 130
    assert "resume with: palaver experiment matrix-games there" in ran.err


def test_a_folder_resumes_with_its_own_plan(palaver, monkeypatch):
    seen = []

    def run(work, *_):
        seen.append((work.folder, len(work.plan.cells)))
        raise KeyboardInterrupt

    monkeypatch.setattr(study, "run", run)
    Path("there").mkdir()
    palaver("experiment", "matrix-games", *FEW, "--out", "there")
    Path("there/lab.yaml").write_text(load("lab", FEW).text)
    palaver("experiment", "matrix-games", "there")
    assert seen == [(Path("there"), 4), (Path("there"), 4)]
