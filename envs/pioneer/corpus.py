"""Imitation texts for both agents.

They are about papers of the arXiv generator, each answered alone or after a partner. Both paragraphs are written as by
the author who does not coordinate. The observer's are drawn without regard to the partner's, so that it is left to
reward what to make of them.
"""

from __future__ import annotations

import random

from palaver.core import Conversation
from palaver.envs.pioneer.env import observer
from palaver.envs.writing import corpus
from palaver.envs.writing.arxiv.corpus import AUTHORS, LENGTHS, opening, paper
from palaver.envs.writing.env import SOLO


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers, two to each prompt; about every other prompt is the observer's."""
    return corpus.demonstrations(n, ("pioneer demonstrations", seed), _draw_request, AUTHORS, answers=2)


def _draw_request(rng: random.Random) -> corpus.Asked:
    slots, title, abstract = paper(rng, tasks=False)
    question = opening(SOLO, title, abstract, rng.choice(LENGTHS))
    after = rng.random() < 0.5
    prompt = observer(question, corpus.answer(AUTHORS, SOLO, slots, rng)) if after else question
    return SOLO, prompt, slots
