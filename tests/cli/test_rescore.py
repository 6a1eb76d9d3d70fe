from __future__ import annotations

import json
from pathlib import Path

import pytest

from palaver.episodes import Episode


@pytest.fixture
def kept(palaver):
    """A row of one who is right among the silent, in the folder `rows`."""
    ran = palaver(
        "evaluate", "echo-v0", "--team", "a1=scripted:reference,a2=scripted:lazy", "-n", 4, "--row", "rows",
        "--label", "half",
    )  # fmt: skip
    assert (ran.code, ran.err) == (0, "row rows/echo-v0--half.json\n")


def test_nothing_changes_where_nothing_has_changed(palaver, kept):
    ran = palaver("results", "rescore", "rows/echo-v0--half.json")
    assert (ran.code, ran.err) == (0, "")
    assert "2.250 → 2.250 mean of 4 episodes" in ran.out
    assert "+0.000 [0.000, 0.000]" in ran.out


def test_another_keyword_makes_another_row(palaver, kept):
    # a1 earns 1.5 in each of 3 turns, a2 nothing: 2.25; of two turns 1.5
    ran = palaver("results", "rescore", "rows/echo-v0--half.jsonl.gz", "num_turns=2", "--row", "again", "--json")
    found = json.loads(ran.out)
    assert (found["before"], found["after"], found["difference"]) == (2.25, 1.5, -0.75)
    assert (found["low"], found["high"], found["n"], found["changed"], found["ended"]) == (-0.75, -0.75, 4, 4, 4)
    assert ran.err == "row again/echo-v0--half-rescored.json\n"
    new = json.loads(Path("again/echo-v0--half-rescored.json").read_text(encoding="utf-8"))
    old = json.loads(Path("rows/echo-v0--half.json").read_text(encoding="utf-8"))
    assert new["parent"] == f"echo-v0--half {old['episodes']['sha256']}"
    assert (new["mean"], new["max_reward"], new["keywords"]) == (1.5, 3.0, {"num_turns": 2})


def test_episodes_without_a_row(palaver):
    palaver("evaluate", "tldr-v0", "--team", "random", "-n", 4, "--out", "e.jsonl")
    ran = palaver("results", "rescore", "e.jsonl", "gated=false", "--out", "new.jsonl")
    assert ran.code == 0
    assert "other observations   0 episodes" in ran.out
    assert ran.err.startswith("there is neither a row nor a run with the keywords of these episodes")
    lines = Path("new.jsonl").read_text(encoding="utf-8").splitlines()
    assert sum(Episode.from_dict(json.loads(line)).team_return() for line in lines) > 0


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["none.jsonl"], "cannot read the episodes 'none.jsonl'"),
        (["e.jsonl", "gate=false"], "has no keyword 'gate'"),
        (["e.jsonl", "gated"], "write key=value"),
        (["e.jsonl", "--row", "rows"], "--row needs episodes with a row in the same folder"),
        (["e.jsonl", "--env", "arxiv-v0"], "the episodes are of tldr_v0, not of arxiv_v0"),
    ],
)
def test_mistakes_are_one_line(palaver, arguments, says):
    palaver("evaluate", "tldr-v0", "--team", "random", "-n", 2, "--out", "e.jsonl")
    ran = palaver("results", "rescore", *arguments)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err.splitlines()[-1]
