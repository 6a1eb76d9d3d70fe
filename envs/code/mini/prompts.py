"""Prompts of the two programmers.

Imitation texts answer these very words: a change bumps the version.
"""

from __future__ import annotations

_SEATS = {
    "aux": "Two strangers write one program and see nothing of each other. You write a helper aux, for f to call.",
    "main": "Two strangers write one program and see nothing of each other. You write f, which calls a helper aux.",
    "coder": "Write a program of two functions: a helper aux, and f, which calls it.",
}


def opening(agent: str, text: str) -> str:
    """The first observation of `aux`, `main`, or the single programmer `coder`.

    `text` describes f.
    """
    return f"{_SEATS[agent]}\n{text}"


def seat_of(prompt: str) -> str:
    """The agent whose first observation this is; "" if it is none."""
    return next((agent for agent, words in _SEATS.items() if prompt.startswith(words)), "")
