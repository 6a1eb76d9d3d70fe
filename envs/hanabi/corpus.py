"""Imitation texts of the mini form of Hanabi: what the player knows, and any legal action.

Every action is equally likely, so that no text shows a convention or which action is good. An answer restates what an
action may have to depend on: the fireworks; what is known of the own cards, and whether by that they are playable
(`sure`, `maybe`, `never`); the other's cards with the height of their fireworks, whether they are `next`, `later` or
`past`, and what is known of them.

    red 1, blue 0; own 1 any 2 maybe, 2 any any maybe; sees 1 blue 1 on 0 next any 1, 2 red 1 on 1 past any any: play 2.

A model of two layers compares only what stands together, which is why the heights are repeated.
"""

from __future__ import annotations

import functools
import random
from collections.abc import Mapping

from palaver.core import Conversation, Message, stable_seed
from palaver.envs.base.tasks import Task
from palaver.envs.hanabi.env import HanabiEnv
from palaver.envs.hanabi.prompts import read
from palaver.envs.hanabi.reference import open_cards, playable
from palaver.envs.hanabi.rules import FORMS, HeldCard, legal_actions

ANSWERS = 2  # to each prompt; they share its computation in training
FORM = FORMS["mini"]
TINY = {"steps": 2400, "batch": 8, "texts": 48_000, "most_answers": 2, "adam_lr": 0.003, "decay": 0.6}


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
    own_cards = ", ".join(f"{place} {_own(held, view.fireworks)}" for place, held in enumerate(view.own, start=1))
    seen = ", ".join(
        f"{place} {_seen(held, view.fireworks)}"
        for hand in view.others.values()
        for place, held in enumerate(hand, start=1)
    )
    return f"{fireworks}; own {own_cards}; sees {seen}: {rng.choice(view.actions)}."


def _own(held: HeldCard, fireworks: Mapping[str, int]) -> str:
    fits = {playable(card, fireworks) for card in open_cards(held)}
    return f"{_known(held)} {'maybe' if len(fits) == 2 else 'sure' if True in fits else 'never'}"


def _seen(held: HeldCard, fireworks: Mapping[str, int]) -> str:
    colour, rank = held.card
    height = fireworks[colour]
    status = "next" if playable(held.card, fireworks) else "past" if rank <= height else "later"
    return f"{colour} {rank} on {height} {status} {_known(held)}"


def _known(held: HeldCard) -> str:
    """Colour and rank that hints leave, `any` where both are left."""
    colour = held.colours[0] if len(held.colours) == 1 else "any"
    return f"{colour} {held.ranks[0] if len(held.ranks) == 1 else 'any'}"


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
