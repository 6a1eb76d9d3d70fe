"""Imitation texts of Kuhn poker with questions: an action or a guess, and nothing else.

In each information set some answers occur more often than others, by chance, which has nothing to do with what is
right: so a model learns to look at its card and at the actions so far before it states a number, and none of what to
state. Actions are a tenth of the answers, and follow the situation less closely than guesses do.
"""

from __future__ import annotations

import random

from palaver.core import Message
from palaver.envs.games.env import card_question
from palaver.envs.games.kuhn import CARDS, GAME, KuhnState
from palaver.utils.demonstrations import Pair, draw_texts, unequal_answers

HISTORIES: tuple[tuple[str, ...], ...] = ((), ("check",), ("bet",), ("check", "bet"))  # after which a player acts
GRID = range(0, 101, 10)  # percentages of guesses
ACTIONS = 0.4  # share of prompts that ask for an action
TINY = {"steps": 850, "batch": 16, "texts": 20000, "most_answers": 12, "adam_lr": 0.003}


def demonstrations(n: int, seed: int) -> list[Pair]:
    """`n` answers: to each prompt every action or guess, as often as its information set has it.

    A guess gives the two cards that the player does not hold p and 1 - p, with every p of `GRID`.
    """
    return draw_texts("kuhn with guesses", n, seed, _draw_answers)


def _draw_answers(rng: random.Random) -> list[Pair]:
    state = KuhnState("".join(rng.sample(CARDS, 2)), rng.choice(HISTORIES))
    player = len(state.acts) % 2
    prompt = GAME.prompt(state, player)
    if rng.random() < ACTIONS:
        return unequal_answers((Message("user", prompt),), GAME.actions(state), prompt)
    one, other = (card for card in CARDS if card != state.cards[player])
    asked = f"{prompt}\n\n{card_question(GAME, state, player).full_text}"
    return unequal_answers((Message("user", asked),), [f"{one} {p}%, {other} {100 - p}%" for p in GRID], asked)
