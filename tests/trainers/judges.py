"""Judges for the tests of training, as scripted chats with the default rubric."""

from __future__ import annotations

import json

from palaver.agents.base.chat import Answer

RUBRIC = ("done", "correct", "together")


def verdict(choices):
    return json.dumps(
        {name: {"reason": "seen", "choice": choice} for name, choice in zip(RUBRIC, choices, strict=True)}
    )


def letters(conversation, seed):
    """Content where the prompt holds more small letters than it does on average."""
    text = conversation[1].content
    return verdict(("fully", "yes", "yes") if sum(map(str.islower, text)) % 2 else ("in part", "mostly", "no"))


def broken(conversation, seed):
    """Never a verdict."""
    return Answer("", failure="transport: nobody is there")


def picky(conversation, seed):
    """Refuses some answers, one in about eight."""
    if len(conversation[1].content) % 8 == 0:
        return Answer("", failure="refusal: not that one")
    return letters(conversation, seed)


def lists(conversation, seed):
    """Scores a group by place."""
    ids = [id for id in "ABCDEFGH" if f'id="{id}"' in conversation[1].content]
    return json.dumps({"answers": [{"id": id, "reason": f"is {id}", "score": n / 8} for n, id in enumerate(ids)]})
