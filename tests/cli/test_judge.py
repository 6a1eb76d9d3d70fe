from __future__ import annotations

import json
from pathlib import Path

import pytest

FEW = ["--data", "generated:0:30", "--repeats", "2", "--probes", "1"]


def test_the_fault_is_printed_and_the_report_written(palaver):
    ran = palaver("judge", "audit", "scripted:slot-biased", *FEW, "--out", "here")
    assert ran.code == 0
    assert "slot bias: prefers what is shown first: the first slot gets" in ran.out
    assert {path.name for path in Path("here").iterdir()} == {
        ".lock", "audit.html", "audit.json", "verdicts.jsonl", "reliability.png", "probes.png",
    }  # fmt: skip
    assert "here/audit.html" in ran.out


def test_a_fair_one(palaver):
    ran = palaver("judge", "audit", "scripted:fair", *FEW, "--strict", "--json")
    found = json.loads(ran.out)
    assert (ran.code, found["faults"], found["judge"], found["pairs"]) == (0, [], "scripted:fair", 30)
    assert found["made"]["plan"]["repeats"] == 2
    assert not Path("runs").exists()


def test_strict_ends_with_one(palaver):
    assert palaver("judge", "audit", "scripted:refusing", *FEW, "--json", "--strict").code == 1
    assert palaver("judge", "audit", "scripted:refusing", *FEW, "--json").code == 0


def test_another_threshold(palaver):
    ran = palaver(
        "judge", "audit", "scripted:slot-biased", *FEW, "--json", "--limit", "slot=0.5", "--limit", "swap=0.9"
    )
    assert json.loads(ran.out)["faults"] == []


def test_a_dry_run_counts(palaver):
    ran = palaver(
        "judge", "audit", "scripted:fair", "--data", "generated:0:30", "-n", "10", "--probes", "0", "--dry-run"
    )
    # 10 pairs, and twice again
    assert ran.out == "10 pairs, 0 graded answers: 30 questions to the judge, a comparison being two calls\n"
    assert not Path("runs").exists()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["judge", "audit", "scripted:fairr"], "Did you mean 'fair'?"),
        (["judge", "audit", "scripted:fair", "--data", "nowhere.json"], "there is no file 'nowhere.json'"),
        (["judge", "audit", "scripted:fair", "--limit", "slott=1"], "Did you mean 'slot'?"),
        (["judge", "audit", "scripted:fair", "--limit", "slot"], "write key=value"),
        (["judge", "audit", "scripted:fair", "--by", "chance"], "--by takes auto, pairs, scores"),
        (["judge", "audit", "recorded:nowhere.json"], "there is no file 'nowhere.json'"),
        (["judge", "ask", "scripted:fair", "--prompt", "x", *("--answer", "y") * 3], "got 3"),
    ],
)
def test_mistakes_are_one_line(palaver, arguments, says):
    ran = palaver(*arguments)
    assert (ran.code, ran.out) == (2, "")
    assert says in ran.err
    assert len(ran.err.splitlines()) == 1
    assert not Path("runs").exists()


def test_one_question(palaver):
    pair = ["judge", "ask", "scripted:length-loving", "--prompt", "x", "--answer", "a long answer, as it were"]
    assert "first is better      1.000" in palaver(*pair, "--answer", "short").out
    ran = palaver(*pair)
    assert (ran.code, "score" in ran.out, "1.000" in ran.out) == (0, True, True)
    refused = palaver("judge", "ask", "scripted:refusing", "--prompt", "1", "--answer", "y", "--answer", "z")
    assert "refusal" in refused.out or "first is better" in refused.out
