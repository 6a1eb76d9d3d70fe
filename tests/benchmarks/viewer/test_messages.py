"""Messages of an analysis in the viewer: its numbers, hostile names, and tables that do not fit."""

from __future__ import annotations

import json

import pytest

from palaver.benchmarks.viewer.messages import MESSAGES
from palaver.benchmarks.viewer.page import Choices, collect, write
from palaver.benchmarks.viewer.sources import ANALYSED
from tests.benchmarks.viewer.made import HOSTILE, Page, episode, save

EACH = [
    {
        "returns": {"removed": -2.0, "silenced/a": -0.5, "silenced/b": 0.0},
        "changed": {"a": ["b"], "b": []},
        "messages": [
            {"turn": 0, "agent": "a", "readers": ["b"], "facts": ["elder near", "fern old"]},
            {"turn": 0, "agent": "b", "readers": ["a"], "facts": []},
        ],
    }
]


@pytest.fixture
def analysed(tmp_path):
    """A run with one evaluation and an analysis of one episode of two turns."""

    def make(table, *episodes):
        (tmp_path / "metrics.jsonl").write_text('{"kind": "eval", "step": 3, "mean": 1.0, "n": 1}\n')
        save(tmp_path / "episodes" / "eval-000003.jsonl", episode())
        save(tmp_path / ANALYSED, *(episodes or (episode(turns=2),)))
        (tmp_path / MESSAGES).write_text(table if isinstance(table, str) else json.dumps(table))
        return tmp_path

    return make


def test_an_analysis_is_in_the_viewer_with_its_numbers(analysed):
    data = collect(analysed({"mean": 1.0, "each": EACH}), Choices())
    evaluated, shown = data["episodes"]
    assert (evaluated["id"], shown["id"], shown["kind"], shown["step"]) == ("eval-3-0", "messages-0", "messages", None)
    assert shown["without"] == [["removed", -1, -2.0, []], ["silenced/a", 0, -0.5, [1]], ["silenced/b", 1, 0.0, []]]
    facts = [data["texts"].index(text) for text in ("elder near", "fern old")]
    assert shown["turns"][0]["messages"] == [[0, [1], facts], [1, [0], []]]
    assert "messages" not in shown["turns"][1]
    assert "without" not in evaluated


@pytest.mark.parametrize(
    "table",
    [
        "", "[" * 100_000, "[]", "{}", {"each": 3}, {"each": []}, {"each": [[]]}, {"each": [{"messages": 3}]},
        {"each": [{"returns": [1], "changed": [2], "messages": [3, {}, {"turn": "0", "agent": "a"}]}]},
        {"each": [{"messages": [{"turn": 9, "agent": "a"}, {"turn": -1, "agent": "a"}, {"turn": 0, "agent": ["a"]}]}]},
        {"each": [{"returns": {"silenced/a": "high"}, "changed": {"a": "b"}, "messages": [{"turn": 0, "agent": "x"}]}]},
    ],
)  # fmt: skip
def test_what_does_not_fit_is_left_out(analysed, table):
    shown = collect(analysed(table), Choices())["episodes"][1]
    assert "without" not in shown
    assert not [turn for turn in shown["turns"] if "messages" in turn]


def test_names_and_facts_are_texts_and_no_keys(analysed):
    each = {
        "returns": {f"silenced/{HOSTILE}": -1.0, HOSTILE: 1.0},
        "changed": {HOSTILE: ["b", "nobody", 3]},
        "messages": [{"turn": 0, "agent": HOSTILE, "readers": ["b", {}], "facts": [HOSTILE, 7]}],
    }
    hostile = episode("t", {HOSTILE: HOSTILE, "b": "x"}, turns=2)
    page = Page(write(analysed({"each": [each]}, hostile)).path)
    shown = page.data["episodes"][1]
    assert [row[1:] for row in shown["without"]] == [[0, -1.0, [1]], [-1, 1.0, []]]
    assert shown["turns"][0]["messages"][0][:2] == [0, [1]]
    assert page.tags.count("script") == 2  # the data and the page's own
    assert "img" not in page.tags
