"""Scripted partners that no environment ships, and the best response to one of them.

They are used as `scripted:palaver.benchmarks.scenarios.partners:NAME`.
"""

from __future__ import annotations

import random

from palaver.agents.simple import WORDS
from palaver.core import Conversation, stable_seed
from palaver.envs.maths import answers
from palaver.envs.maths.reference import reference
from palaver.envs.minecraft.mini.houses import plan_of, twins
from palaver.envs.writing.reference import arxiv


def fickle(conversation: Conversation, seed: int) -> str:
    """Author of `arxiv-v0` that follows the published rules in only half of the episodes.

    In the other half it writes random words.

    Both choices depend on the seed only.
    """
    draw = random.Random(stable_seed("fickle", seed))
    if draw.random() < 0.5:
        return arxiv(conversation, seed)
    return " ".join(draw.choices(WORDS, k=draw.randint(1, 100)))


def rest(conversation: Conversation, _seed: int) -> str:
    """Builder of `build-mini-v0` that adds the lines `twins` leaves out.

    It is the best response to one of them.
    """
    observation = conversation[0].content if conversation else ""
    taken = len(twins(conversation, 0).splitlines())
    return "\n".join(plan_of(observation)[taken:])


def stubborn(conversation: Conversation, seed: int) -> str:
    """Solver that is always wrong by one and never changes its answer.

    For a question that it cannot solve it claims the answer 1.
    """
    opening = conversation[:1]  # later messages are ignored
    right = answers.read(reference(opening, seed)).value
    wrong = 1 if right is None else right + 1
    return f"I have checked it twice and I am certain: the answer is {wrong}.\n#### {wrong}"
