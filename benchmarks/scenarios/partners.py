"""Scripted strangers, and the best answer to one of them, that no environment ships.

They are used as `scripted:palaver.benchmarks.scenarios.partners:NAME`.
"""

from __future__ import annotations

import random

from palaver.agents.simple import WORDS
from palaver.core import Conversation, stable_seed
from palaver.envs.maths import answers
from palaver.envs.maths.reference import reference
from palaver.envs.minecraft.mini.prompts import plan_of
from palaver.envs.minecraft.mini.reference import twins
from palaver.envs.writing.arxiv import reference as arxiv


def fickle(conversation: Conversation, seed: int) -> str:
    """An author of `arxiv-v0` who keeps to the published rules in half of the episodes, and else says words at random.

    Which of both, and the words, are drawn by the seed alone.
    """
    draw = random.Random(stable_seed("fickle", seed))
    if draw.random() < 0.5:
        return arxiv.reference(conversation, seed)
    return " ".join(draw.choices(WORDS, k=draw.randint(1, 100)))


def rest(conversation: Conversation, _seed: int) -> str:
    """A builder of `build-mini-v0` who takes the lines that `twins` leave: the best response to one of them."""
    heard = conversation[0].content if conversation else ""
    taken = len(twins(conversation, 0).splitlines())
    return "\n".join(plan_of(heard)[taken:])


def stubborn(conversation: Conversation, seed: int) -> str:
    """A solver who is always wrong by one and never gives in, whatever the others say.

    Of a question that it cannot solve it is sure that the answer is 1.
    """
    opening = conversation[:1]  # what was said later changes nothing
    right = answers.read(reference(opening, seed)).value
    wrong = 1 if right is None else right + 1
    return f"I have checked it twice and I am certain: the answer is {wrong}.\n#### {wrong}"
