"""Imitation texts of repeated matrix games in which an answer is an action and nothing else.

The texts of `palaver.envs.matrix.repeated` have a model restate the last round before it acts. While it learns, it may
stop to restate and then has nothing to react to. Here it reads the last round itself: in each game and situation some
actions occur more often than others, by chance, which has nothing to do with what is right. Where all are alike a model
of two layers does not look at what was played.
"""

from __future__ import annotations

import itertools
import random

from palaver.core import Conversation, stable_seed
from palaver.envs.matrix.repeated import draw_round, frequencies

TINY = {"steps": 800, "batch": 16, "texts": 16000, "adam_lr": 0.003}


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers: to each prompt every legal action, as often as its situation has it."""
    rngs = (random.Random(stable_seed("reactions", seed, index)) for index in itertools.count())
    answers = (answer for rng in rngs for answer in _draw_answers(rng))
    return list(itertools.islice(answers, n))


def _draw_answers(rng: random.Random) -> list[tuple[Conversation, str]]:
    conversation, situation, legal = draw_round(rng, fresh=True)
    game = conversation[0].content.partition(".")[0].removeprefix("Game: ")
    actions = sorted(legal)
    often = frequencies(len(actions), game, situation)
    return [(conversation, f"{action}.") for action, n in zip(actions, often, strict=True) for _ in range(n)]
