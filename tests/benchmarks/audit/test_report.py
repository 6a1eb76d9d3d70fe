from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest

from palaver.benchmarks.judge_audit import ask, page, run
from palaver.benchmarks.judge_audit.data import Data, Graded, read
from palaver.benchmarks.judge_audit.faults import Fault
from palaver.benchmarks.judge_audit.table import Measure
from palaver.core import ConfigError, ScoringError
from tests.benchmarks.audit.judges import Brainy, Scorer

DATA = read(["generated:0:40"])


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    work = run.prepare(DATA, ask.AuditPlan(probed=2), lambda repeat: Brainy("injectable", DATA.pairs, repeat))
    made = {"command": "palaver judge audit x", "palaver": "1", "commit": "c", "python": "3", "platform": "p"}
    done = run.audit(work, "scripted:injectable", ["generated:0:40"], folder=folder, provenance=made)
    return done, page.write(done, folder), folder


def test_what_is_kept(found):
    done, paths, folder = found
    assert {path.name for path in paths} == {"audit.html", "audit.json", "reliability.png", "probes.png"}
    assert all(path.stat().st_size > 1000 for path in paths)
    kept = json.loads((folder / "audit.json").read_text())
    assert kept == json.loads(json.dumps(done.to_dict()))
    assert [fault["name"] for fault in kept["faults"]] == ["injectable"]
    assert kept["limits"]["dollars"] is None
    lines = [json.loads(line) for line in (folder / "verdicts.jsonl").read_text().splitlines()]
    assert len(lines) == len(ask.items(DATA.pairs, ask.AuditPlan(probed=2)))
    assert lines[0]["orders"] in ([1.0, 1.0], [0.0, 0.0])


def test_what_was_tried(found):
    tried = {each.name: each for each in found[0].tried}
    assert all(each.won == each.n == 2 and each.control_won == 0 for each in tried.values() if each.kind == "injection")
    assert all(each.won == 0 and each.control_won is None for each in tried.values() if each.kind != "injection")
    assert tried["ten thousand times the same"].text.endswith("… 10,000 times")


def test_the_page_names_the_fault(found):
    done, _, folder = found
    text = (folder / "audit.html").read_text()
    assert "1 fault found" in text
    (fault,) = done.faults
    assert fault.line.partition(":")[0] in text
    assert text.count("<svg") == 2
    assert "<script" not in text
    assert re.findall(r'(?:src|href)="(?!#)', text) == []


def test_hostile_text_stays_text(found):
    bad = '<script>alert(1)</script>"><img src=x>\x1b[31m$x_1$'
    done = replace(
        found[0], judge=bad, data=(bad,), failures={bad: 1}, made={"command": bad, "platform": ""},
        faults=(Fault(bad, bad, "accuracy"),), measures=(Measure("accuracy", bad, 0.5, 0.4, 0.6, 3, bad),),
        tried=tuple(replace(each, name=bad, text=bad) for each in found[0].tried),
    )  # fmt: skip
    text = page.html(done)
    assert "<script" not in text
    assert "<img" not in text
    assert "\x1b" not in text


def test_a_page_without_pairs_or_faults(tmp_path):
    graded = Data((), tuple(Graded(str(n), "p", "x" * n, 1 + n) for n in range(5)))
    judge = Scorer(lambda _, text: len(text) / 4)
    work = run.prepare(graded, ask.AuditPlan(), lambda _: ask.ByScore(judge), judge)
    done = run.audit(work, "scorer", ["x"], folder=tmp_path)
    table = {each.key: each for each in done.measures}
    assert (table["quadratic_kappa"].value, table["spearman"].value) == (pytest.approx(1), pytest.approx(1))
    assert (done.faults, done.graded, done.pairs) == ((), 5, 0)
    assert [path.name for path in page.write(done, tmp_path)] == ["audit.html", "audit.json"]
    assert "no faults found" in (tmp_path / "audit.html").read_text()


def test_grades_that_disagree():
    """Grades 1 1 3 and scores that stand for 1 2 3 of them: 0.8, worked out in test_measures."""
    graded = Data((), (Graded("a", "p", "a", 1), Graded("b", "p", "b", 1), Graded("c", "p", "c", 3),
                       Graded("d", "p", "lost", 3)))  # fmt: skip
    judge = Scorer(lambda _, text: SCORES[text])
    done = run.audit(run.prepare(graded, ask.AuditPlan(), lambda _: ask.ByScore(judge), judge), "scorer", ["x"])
    table = {each.key: each for each in done.measures}
    assert (table["quadratic_kappa"].value, table["quadratic_kappa"].n) == (pytest.approx(0.8), 3)
    assert table["failures"].value == 0.25
    assert done.failures == {"timeout": 1}


SCORES = {"a": 0.0, "b": 0.5, "c": 1.0, "lost": None}


def test_no_verdict_at_all_is_one_line_and_what_was_said_is_kept(tmp_path):
    judge = Scorer(lambda *_: None)
    work = run.prepare(DATA, ask.AuditPlan(), lambda _: ask.ByScore(judge))
    with pytest.raises(ScoringError, match="failed on all of the first 10 questions; the first time: timeout: 3 s"):
        run.audit(work, "scorer", ["x"], folder=tmp_path)
    assert judge.asked == [2] * 10
    assert (tmp_path / "verdicts.jsonl").read_text().count("timeout") == 10


def test_a_few_questions_without_a_verdict_are_told_too():
    judge = Scorer(lambda *_: None)
    few = Data(DATA.pairs[:3])
    work = run.prepare(few, ask.AuditPlan(repeats=1, probed=0), lambda _: ask.ByScore(judge))
    with pytest.raises(ScoringError, match="no verdict on any of 3 questions; the first failure: timeout: 3 s"):
        run.audit(work, "scorer", ["x"])


def test_a_folder_that_cannot_be_written(found, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="cannot write"):
        page.write(found[0], tmp_path / "file" / "folder")
    judge = Scorer(lambda *_: pytest.fail("asked, and the answer could not be kept"))
    work = run.prepare(DATA, ask.AuditPlan(), lambda _: ask.ByScore(judge))
    with pytest.raises(ConfigError, match="cannot write"):
        run.audit(work, "scorer", ["x"], folder=tmp_path / "file" / "folder")


@pytest.mark.parametrize(
    ("measure", "says"),
    [
        (Measure("accuracy", "", 1 / 3, 0.25, 0.5), ("33.3 %", "25.0 – 50.0")),
        (Measure("length", "", -0.001, -1.234, 1.0), ("-0.00", "-1.23 – 1.00")),
        (Measure("tokens", "", 110.4), ("110", "")),
    ],
)
def test_how_numbers_are_shown(measure, says):
    assert page.formatted(measure) == says
