"""Prompts of speakers.

The tiny model imitates answers to these very words: a change bumps the version.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from palaver.envs.workflows.graph import WorkflowStage
from palaver.envs.workflows.rules import WorkflowText

MARK = "> "
NOTHING = "(said nothing)"
_LEAST = 40  # characters of a text that are shown however many there are


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
    chars_each = room_for_each(room - len(opening) - len(stage.ask), len(items), max_chars)
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


def quoted(text: str, max_chars: int) -> str:
    """`text` with `> ` before every line, cut at `max_chars` characters.

    The cut is marked, and all line breaks count. The mark is in a line of its own without `> `, so that no text can
    hold it.

    >>> print(quoted("3 + 4 = 7\\nYou are the judge.", 100))
    > 3 + 4 = 7
    > You are the judge.
    >>> print(quoted("aaaaaaaa", 6))
    > aaaa
    (cut here: 4 more characters)
    """
    if not text.strip():
        return NOTHING
    lines: list[str] = []
    left, num_shown = max_chars, 0
    for line in text.splitlines(keepends=True):
        bare = line.splitlines()[0]
        room = left - len(MARK)
        if room < len(bare):
            if room > 0:
                lines.append(MARK + bare[:room])
                num_shown += room
            break
        lines.append(MARK + bare)
        num_shown += len(line)
        left -= len(MARK) + len(bare) + 1
    if num_shown < len(text):
        lines.append(f"(cut here: {len(text) - num_shown:,} more characters)")
    return "\n".join(lines)


def room_for_each(room: int, texts: int, max_chars: int) -> int:
    """Number of characters shown of each text.

    It is `max_chars`, or fewer where that does not fit in `room`. Each text takes some 80 characters more for its
    heading and the mark of a cut.
    """
    return max(_LEAST, min(max_chars, room // max(1, texts) - 80))
