"""Prompts of speakers. The tiny model imitates answers to these very words: a change bumps the version."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from palaver.envs.workflows.graph import WorkflowStage
from palaver.envs.workflows.quote import quoted, room_for_each
from palaver.envs.workflows.rules import WorkflowText


def told(
    opening: str,
    seat: str,
    stage: WorkflowStage,
    shown: Sequence[WorkflowText],
    hide: Callable[[str], str],
    room: int,
    most: int,
) -> str:
    """Prompt of an agent: its opening if it has not spoken, the others' texts, the instruction.

    Args:
        opening: role and question, "" for an agent that has them.
        seat: the agent that reads it.
        stage: the turn.
        shown: the texts, in the order in which they are shown.
        hide: hides the answer in a text.
        room: most characters of the whole prompt.
        most: most characters of each text.
    """
    left = room - len(opening) - len(stage.ask)
    each = room_for_each(left, len(shown), most)
    texts = [(said, hide(said.text) if stage.shows and stage.shows.mask else said.text) for said in shown]
    parts = [
        f"{_heading(number, said, seat, stage)}\n{quoted(text, each)}" for number, (said, text) in enumerate(texts)
    ]
    return "\n\n".join(part for part in (opening, *parts, stage.ask) if part)


def _heading(number: int, said: WorkflowText, seat: str, stage: WorkflowStage) -> str:
    if stage.kind == "choice":
        return f"Answer {number + 1}:"
    if stage.shows and stage.shows.shuffle:
        return "Somebody said:"
    return "You said:" if said.agent == seat else f"{said.agent} said:"
