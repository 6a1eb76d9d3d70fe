"""Imitation texts of the Tiny Hanabi games: an action and nothing else.

In each information set some actions occur more often than others, by chance, which has nothing to do with payoffs: so a
model learns to look at its card, at the action of `p1` and at the game's letter, and none of what to do about them.
"""

from __future__ import annotations

import functools
import random

from palaver.core import Message
from palaver.envs.games.corpus import draw_state
from palaver.envs.games.tiny_hanabi import PAYOFFS, TinyHanabi
from palaver.utils.demonstrations import Pair, draw_texts, unequal_answers

TINY = {"steps": 600, "batch": 16, "texts": 12000, "most_answers": 12, "adam_lr": 0.003}


def demonstrations(n: int, seed: int) -> list[Pair]:
    """`n` answers: to each prompt every action, as often as its information set has it."""
    return draw_texts("tiny hanabi", n, seed, _draw_answers)


def _draw_answers(rng: random.Random) -> list[Pair]:
    game = _games()[rng.choice(sorted(PAYOFFS))]
    state, player = draw_state(rng, game)
    prompt = game.prompt(state, player)
    return unequal_answers((Message("user", prompt),), game.actions(state), prompt)


@functools.cache
def _games() -> dict[str, TinyHanabi]:
    return {name: TinyHanabi(name) for name in PAYOFFS}
