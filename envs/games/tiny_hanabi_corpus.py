"""Imitation texts of the Tiny Hanabi games: an action and nothing else.

In each information set some actions occur more often than others, by chance, which has nothing to do with payoffs: so a
model learns to look at its card, at the action of `p1` and at the game's letter, and none of what to do about them.
"""

from __future__ import annotations

import functools
import itertools
import random

from palaver.core import Conversation, Message, stable_seed
from palaver.envs.games.corpus import draw_state
from palaver.envs.games.tiny_hanabi import PAYOFFS, TinyHanabi
from palaver.envs.matrix.repeated import frequencies

TINY = {"steps": 600, "batch": 16, "texts": 12000, "most_answers": 12, "adam_lr": 0.003}


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers: to each prompt every action, as often as its information set has it."""
    rngs = (random.Random(stable_seed("tiny hanabi", seed, index)) for index in itertools.count())
    answers = (answer for rng in rngs for answer in _draw_answers(rng))
    return list(itertools.islice(answers, n))


def _draw_answers(rng: random.Random) -> list[tuple[Conversation, str]]:
    game = _games()[rng.choice(sorted(PAYOFFS))]
    state, player = draw_state(rng, game)
    prompt, actions = game.prompt(state, player), game.actions(state)
    talk = (Message("user", prompt),)
    often = zip(actions, frequencies(len(actions), prompt), strict=True)
    return [(talk, f"{action}.") for action, n in often for _ in range(n)]


@functools.cache
def _games() -> dict[str, TinyHanabi]:
    return {name: TinyHanabi(name) for name in PAYOFFS}
