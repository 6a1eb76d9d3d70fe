"""Prompts of the echo game."""

from __future__ import annotations


def opening(word: str, turns: int) -> str:
    """The rules and the first word."""
    return (
        f"For {turns} turns, answer with the word you are given and with nothing else. "
        f"Later words are the first ones that your neighbour says.\nThe word is: {word}"
    )


def feedback(word: str) -> str:
    """The next word."""
    return f"The word is: {word}"
