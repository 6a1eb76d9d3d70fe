"""Prompts of hidden profiles."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from palaver.text import one_line

LONGEST = 400  # characters of another's message


def opening(agent: str, task: Mapping[str, Any], facts: Sequence[str], *, tiny: bool) -> str:
    """The first observation: description, options, the agent's facts, and the request of a vote."""
    options = f"Options: {', '.join(task['possible_answers'])}."
    if tiny:
        return f"You are {agent}. {options}\nFacts: {', '.join(facts)}.\n{request(0, 0, tiny=True)}"
    numbered = [f"Fact {n}: {fact}" for n, fact in enumerate(facts, start=1)]
    lines = [f"You are {agent}. {task['description']}", options, *numbered, request(0, 0, tiny=False)]
    return "\n".join(lines)


def request(turn: int, rounds: int, *, tiny: bool) -> str:
    """The request of a turn: a vote, a message, or the final vote."""
    if turn == 0:
        return "Vote." if tiny else "Vote for one option."
    if turn > rounds:
        return "Final vote." if tiny else "Final vote: name one option."
    if tiny:
        return "Say."
    return f"Round {turn} of {rounds}. Say in one or two sentences what the others should know."


def messages(texts: Mapping[str, str]) -> str:
    """The others' messages, a line each."""
    return "\n".join(f"{agent}: {one_line(text, LONGEST)}" for agent, text in texts.items())
