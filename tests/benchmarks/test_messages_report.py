"""Messages and conventions in a run's report: numbers as stored or counted by hand, hostile texts, damaged files."""

from __future__ import annotations

import json

import pytest

from palaver.benchmarks.reports.charts import figure
from palaver.benchmarks.reports.palette import PAPER
from palaver.benchmarks.reports.run_folder import RunFolder
from palaver.benchmarks.reports.run_report import page
from palaver.benchmarks.reports.run_report.conventions import conventions, conventions_of, form_of
from palaver.benchmarks.reports.run_report.messages import messages
from palaver.benchmarks.viewer.messages import MESSAGES
from palaver.core import Completion
from palaver.episodes import Episode, Turn
from tests.overlap import overlapping_texts, texts_outside

WORTH = {
    "env": "hidden-profile-v0", "episodes": 16, "mean": 2.0, "messages": 3.0, "tokens": 40.0,
    "return_per_100_tokens": 5.0,
    "effects": {
        "removed": {"mean": 0.0, "difference": -2.0, "low": -2.0, "high": -2.0},
        "shuffled": {"mean": 0.5, "difference": -1.5, "low": None, "high": None},
        "silenced/p1": {"mean": 1.0, "difference": -1.0, "low": -1.5, "high": -0.5},
    },
    "influence": {"p1": {"p2": 0.625, "p3": 0.0}, "p2": {"p1": 1.0, "p3": 0.5}},
    "facts": {"n": 48, "sent": 1.0, "used": 0.625},
}  # fmt: skip


def episode(*rounds):
    """An episode of turns, each agent -> its text."""
    turns = [
        Turn(
            index=index, node=str(index), parent="", group=str(index), choice={}, observations={},
            completions={agent: Completion(text) for agent, text in texts.items()},
            rewards=dict.fromkeys(texts, 0.0), components={agent: {} for agent in texts},
        )
        for index, texts in enumerate(rounds)
    ]  # fmt: skip
    return Episode("echo-v0", "t", 0, tuple(turns), "terminated")


def drawn(drawing):
    found = figure(PAPER, drawing.size, drawing.draw)
    assert (overlapping_texts(found), texts_outside(found)) == ([], [])
    return found


def test_numbers_of_the_section_are_those_of_the_analysis(tmp_path):
    (tmp_path / MESSAGES).write_text(json.dumps(WORTH))
    view = messages(RunFolder(tmp_path))
    assert dict(view.facts) == {
        "episodes": "16", "mean return": "2", "messages an episode": "3", "tokens": "40", "return per 100 tokens": "5",
        "facts of one agent that it sent": "1.00", "of these, used by another": "0.62",
    }  # fmt: skip
    effects = drawn(view.drawings["effects"]).axes[0]
    assert [text.get_text() for text in effects.get_yticklabels()] == ["removed", "shuffled", "silenced/p1"]
    assert list(effects.lines[0].get_xdata()) == [-2.0, -1.5, -1.0]
    texts = [text.get_text() for text in drawn(view.drawings["influence"]).axes[0].texts]
    assert sorted(filter(None, texts)) == ["0", "100", "50", "62"]


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"mean": "high"}', '{"mean": 1, "effects": [1], "influence": {"a": 3}, "facts": 0}']
)
def test_a_damaged_file_is_left_out(tmp_path, text):
    (tmp_path / MESSAGES).write_text(text)
    view = messages(RunFolder(tmp_path))
    for drawing in view.drawings.values() if view else ():
        drawn(drawing)


def test_conventions_are_counted_turn_by_turn():
    """Of 3 first texts of `a` two are alike, of 2 second ones one each: (2 + 1) / 5; forms: 12 and 7 are both 0."""
    found = conventions_of(
        [
            episode({"a": "Map  12", "b": "x"}, {"a": "yes", "b": "x"}),
            episode({"a": "map 7", "b": "x"}, {"a": "no", "b": "x"}),
            episode({"a": "list", "b": "y"}),
        ]
    )
    assert (found["a"].form, found["a"].share, found["a"].forms, found["a"].texts) == ("map 0", 3 / 5, 4, 5)
    assert (found["b"].form, found["b"].share, found["b"].forms) == ("x", 4 / 5, 2)


def test_any_text_has_a_form():
    for text in ("", "\x00\x1b[31m", "<script>", "9" * 10**6, "é" * 500, "\ud800"):
        assert len(form_of(text)) <= 60
    assert form_of("Lines 3, 14:\n  RED") == "lines 0, 0: red"


def run_with(folder, evaluations):
    (folder / "episodes").mkdir()
    for step, episodes in evaluations.items():
        lines = [json.dumps(one.to_dict()) for one in episodes]
        (folder / "episodes" / f"eval-{step:06d}.jsonl").write_text("\n".join(lines) + "\n")
    return RunFolder(folder, evals=tuple({"kind": "eval", "step": step, "mean": 0.0, "n": 2} for step in evaluations))


def test_a_convention_that_emerges_is_in_the_report(tmp_path):
    before = [episode({"a": "map 1", "b": "<b>one"}), episode({"a": "list 2", "b": "<b>one"})]
    after = [episode({"a": "map 1", "b": "<b>one"}), episode({"a": "map 2", "b": "<b>one"})]
    run = run_with(tmp_path, {0: before, 10: after})
    view = conventions(run)
    (agent, first, last), _ = view.rows
    assert (agent, first.share, last.share, last.form) == ("a", 0.5, 1.0, "map 0")
    lines = drawn(view.drawing).axes[0].lines
    assert [list(line.get_ydata()) for line in lines] == [[0.5, 1.0], [1.0, 1.0]]
    (tmp_path / MESSAGES).write_text(json.dumps(WORTH))
    written = page.write(run).read_text()
    assert "Worth of messages" in written
    assert "map 0" in written
    assert "&lt;b&gt;one" in written
    assert "<b>one" not in written


def test_one_evaluation_is_no_course(tmp_path):
    assert conventions(run_with(tmp_path, {0: [episode({"a": "x"}), episode({"a": "x"})]})) is None
