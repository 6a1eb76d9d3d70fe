"""Pages of the workflows."""

from __future__ import annotations

from docs.build import workflow_pages as pages
from palaver.envs.maths.reference import reference
from palaver.envs.workflows.builtin import BUILT_IN


def test_every_workflow_has_a_page():
    assert {*pages.NAMES, "aggregate"} == set(BUILT_IN)
    assert {path.stem for path in pages.FOLDER.glob("*.md")} == set(pages.NAMES)


def test_a_debate_costs_what_it_costs():
    """Two agents in two turns: four texts; the conversation of the second turn holds the first."""
    turns = list(pages.episode("debate", 0, reference))
    assert [(turn, agent) for turn, agent, *_ in turns] == [(t, s) for t in (0, 1) for s in ("solver1", "solver2")]
    (_, _, first, completion), _, (_, _, second, _), _ = turns
    assert [message.role for message in second] == ["user", "assistant", "user"]
    assert second[:2] == (*first, second[1])
    assert second[1].content == completion


def test_the_debates_turns_as_a_reader_sees_them():
    text = pages.page("debate")
    assert "| the others' last texts | Answer the question again. | – |" in text
    assert "| `agents` | `2` | how many debate. |" in text
    assert "turn 2, solver1 observes" in text
