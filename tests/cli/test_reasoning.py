"""`palaver experiment reasoning` with scripted teams."""

from __future__ import annotations

from pathlib import Path

import pytest

TABLE = """
env: maths-mini-v0
keywords: {tasks: "sample[:6]"}
model: scripted:reference
baseline: alone
rows:
  - {name: alone, play: {workflow: parallel, agents: 1}}
  - {name: debating, play: {workflow: debate}}
"""


@pytest.fixture
def table():
    Path("own.yaml").write_text(TABLE)
    return "own.yaml"


def test_a_dry_run_counts_and_writes_nothing(palaver):
    ran = palaver("experiment", "reasoning", "--dry-run", "--seeds", "2", "--out", "here", "train.steps=3")
    assert ran.code == 0, ran.err
    assert "11 rows of 2 seeds: 12 runs to train" in ran.err
    assert not Path("here").exists()


def test_a_table_is_printed_and_drawn(palaver, table):
    ran = palaver("experiment", "reasoning", table, "--out", "here", "--seeds", "1", "--markdown")
    assert ran.code == 0, ran.err
    assert "| alone | 1.000 [1.000, 1.000] | 1.000 [1.000, 1.000] | – | – | 0 | 0 | 0 |" in ran.out
    assert "Share of 6 held-out problems" in ran.out
    assert {path.name for path in Path("here").iterdir()} >= {"results.json", "teams.png"}
    assert "debating" in palaver("experiment", "reasoning", table, "--out", "here", "--seeds", "1").out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere.yaml"], "cannot read the table 'nowhere.yaml'"),
        (["trian.steps=1"], "unknown key 'trian"),
        (["env.id=arxiv-v0"], "the table is about maths-mini-v0"),
    ],
)
def test_mistakes_are_one_line(palaver, arguments, says):
    ran = palaver("experiment", "reasoning", *arguments, "--out", "here")
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err
    assert len(ran.err.splitlines()) == 1
    assert not Path("here").exists()
