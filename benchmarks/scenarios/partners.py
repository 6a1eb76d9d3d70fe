"""Scripted strangers that no environment ships, used as `scripted:palaver.benchmarks.scenarios.partners:NAME`."""

from __future__ import annotations

from palaver.core import Conversation
from palaver.envs.maths import answers
from palaver.envs.maths.reference import reference


def stubborn(conversation: Conversation, seed: int) -> str:
    """A solver who is always wrong by one and never gives in, whatever the others say.

    Of a question that it cannot solve it is sure that the answer is 1.
    """
    opening = conversation[:1]  # what was said later changes nothing
    right = answers.read(reference(opening, seed)).value
    wrong = 1 if right is None else right + 1
    return f"I have checked it twice and I am certain: the answer is {wrong}.\n#### {wrong}"
