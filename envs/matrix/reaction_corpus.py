"""Imitation texts of repeated matrix games in which an answer is an action and nothing else.

The texts of `palaver.envs.matrix.repeated` have a model restate the last round before it acts. While it learns, it may
stop to restate and then has nothing to react to. Here it reads the last round itself: in each game and situation some
actions occur more often than others, by chance, which has nothing to do with what is right. Where all are alike a model
of two layers does not look at what was played.
"""

from __future__ import annotations

import random

from palaver.envs.matrix.repeated import draw_round
from palaver.utils.demonstrations import Pair, draw_texts, unequal_answers

TINY = {"steps": 800, "batch": 16, "texts": 16000, "adam_lr": 0.003}


def demonstrations(n: int, seed: int) -> list[Pair]:
    """`n` answers: to each prompt every legal action, as often as its situation has it."""
    return draw_texts("reactions", n, seed, _draw_answers)


def _draw_answers(rng: random.Random) -> list[Pair]:
    conversation, situation, legal = draw_round(rng, fresh=True)
    game = conversation[0].content.partition(".")[0].removeprefix("Game: ")
    return unequal_answers(conversation, sorted(legal), game, situation)
