"""Prompts of speakers.

The tiny model imitates answers to these very words: a change bumps the version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from palaver.envs.workflows.graph import WorkflowStage
from palaver.envs.workflows.quote import quoted, room_for_each
from palaver.envs.workflows.rules import WorkflowText


def stage_prompt(
    opening: str,
    agent: str,
    stage: WorkflowStage,
    items: Sequence[WorkflowText],
    hide: Callable[[str], str],
    room: int,
    max_chars: int,
) -> str:
    """Prompt of an agent: its opening if it has not spoken, the others' texts, the instruction.

    Args:
        opening: role and question, "" for an agent that has them.
        agent: the agent that reads it.
        stage: the turn.
        items: the texts, in the order in which they are shown.
        hide: hides the answer in a text.
        room: maximum characters of the whole prompt.
        max_chars: maximum characters of each text.
    """
    left = room - len(opening) - len(stage.ask)
    chars_each = room_for_each(left, len(items), max_chars)
    texts = [(item, hide(item.text) if stage.shows and stage.shows.mask else item.text) for item in items]
    parts = [
        f"{_heading(index, item, agent, stage)}\n{quoted(text, chars_each)}" for index, (item, text) in enumerate(texts)
    ]
    return "\n\n".join(part for part in (opening, *parts, stage.ask) if part)


def _heading(index: int, item: WorkflowText, agent: str, stage: WorkflowStage) -> str:
    if stage.kind == "choice":
        return f"Answer {index + 1}:"
    if stage.shows and stage.shows.shuffle:
        return "Somebody said:"
    return "You said:" if item.agent == agent else f"{item.agent} said:"
