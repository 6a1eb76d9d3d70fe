"""Imitation texts of the mini form of Hanabi: what the player knows, and any legal action.

Every action is equally likely, so that no text shows a convention or a card worth playing. An answer restates what an
action may have to depend on, as `red 1, blue 0; ?/2, ?/?; sees blue 1, red 1: play 2.`.
"""

from __future__ import annotations

import functools
import random

from palaver.core import Conversation, Message, stable_seed
from palaver.envs.base.tasks import Task
from palaver.envs.hanabi.env import HanabiEnv
from palaver.envs.hanabi.prompts import known, read
from palaver.envs.hanabi.rules import FORMS, legal_actions

ANSWERS = 4  # to each prompt; they share its computation in training
FORM = FORMS["mini"]


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers, `ANSWERS` to each prompt, on decks that were drawn for them."""
    demos: list[tuple[Conversation, str]] = []
    for index in range(-(-n // ANSWERS)):
        rng = random.Random(stable_seed("hanabi demonstrations", seed, index))
        prompt = _draw_prompt(rng)
        demos += [((Message("user", prompt),), _answer(prompt, rng)) for _ in range(ANSWERS)]
    return demos[:n]


def _answer(prompt: str, rng: random.Random) -> str:
    view = read(prompt)
    assert view is not None
    fireworks = ", ".join(f"{colour} {rank}" for colour, rank in view.fireworks.items())
    own_cards = ", ".join(known(held, FORM) for held in view.own)
    seen = ", ".join(f"{held.card[0]} {held.card[1]}" for hand in view.others.values() for held in hand)
    return f"{fireworks}; {own_cards}; sees {seen}: {rng.choice(view.actions)}."


def _draw_prompt(rng: random.Random) -> str:
    """Draw a prompt of a game of random actions."""
    env = _make_env()
    cards = FORM.cards()
    rng.shuffle(cards)
    env.tasks, env.decks["demonstration"] = (Task("demonstration"),), cards
    observations, _ = env.reset(options={"task": 0})
    prompts = []
    while env.agents:
        agent = env.agents[env.game.mover()]
        prompts.append(observations[agent])
        observations, *_ = env.step({agent: rng.choice(legal_actions(env.game))})
    return rng.choice(prompts)


@functools.cache
def _make_env() -> HanabiEnv:
    return HanabiEnv(form="mini")
