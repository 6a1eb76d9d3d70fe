"""The workflows' pages are what the workflows are; run `python -m palaver.envs.workflows.pages` to rewrite them."""

from __future__ import annotations

import pytest

from palaver.envs.maths.reference import reference
from palaver.envs.workflows import pages
from palaver.envs.workflows.builtin import BUILT_IN


def test_every_workflow_has_a_page():
    assert {*pages.NAMES, "aggregate"} == set(BUILT_IN)
    assert {path.stem for path in pages.FOLDER.glob("*.md")} == set(pages.NAMES)


@pytest.mark.parametrize("name", pages.NAMES)
def test_the_page_is_up_to_date(name):
    assert (pages.FOLDER / f"{name}.md").read_text(encoding="utf-8") == pages.page(name)


def test_a_debate_costs_what_it_costs():
    """Two seats in two turns: four texts; the second turn is told after the first, and what was said is read again."""
    turns = list(pages.episode("debate", 0, reference))
    assert [(number, seat) for number, seat, *_ in turns] == [(t, s) for t in (0, 1) for s in ("solver1", "solver2")]
    (_, _, first, said), _, (_, _, second, _), _ = turns
    assert [message.role for message in second] == ["user", "assistant", "user"]
    assert second[:2] == (*first, second[1])
    assert second[1].content == said


def test_the_debates_turns_as_a_reader_sees_them():
    text = pages.page("debate")
    assert "| the others' last texts | Answer the question again. | – |" in text
    assert "| `agents` | `2` | how many debate. |" in text
    assert "turn 2, solver1 is told" in text


def test_a_stale_page_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pages, "FOLDER", tmp_path)
    monkeypatch.setattr(pages, "NAMES", ("vote",))
    assert pages.main(["--check"]) == 1
    assert "vote.md" in capsys.readouterr().err
    assert pages.main([]) == 0
    assert pages.main(["--check"]) == 0
