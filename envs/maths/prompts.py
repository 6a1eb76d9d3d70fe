"""Prompts of questions.

The tiny model imitates answers to these very words: a change bumps the version.
"""

from __future__ import annotations

HINT = "End with #### and the answer."


def opening(question: str) -> str:
    """The question, and how its answer is to be marked."""
    return f"{question.strip()}\n{HINT}"


def question_of(prompt: str) -> str:
    """The question of the prompt that `initial_observations` wrote; "" where it wrote none."""
    before, hint, _ = prompt.partition(f"\n{HINT}")
    return before if hint else ""
