"""Imitation texts of the negotiation of a price where each observation stands alone.

An answer restates the own limit and the other's last offer, compares them, names a choice and its price, and offers so:
`34 41 thin twenty 54: <price> 54 </price>`. The comparison is `loss`, `thin` (a gain below 10), `fair` (below 20) or
`good`, and `none` without an offer; the choices are to accept, or a gain of ten, twenty or thirty. In each situation
some choices occur more often than others, by chance, which has nothing to do with what is right: so a model learns to
look at the comparison and at the number of the message, and not what to do about them.
"""

from __future__ import annotations

import functools
import random

from palaver.core import Conversation, Message
from palaver.envs.negotiation import price
from palaver.utils.demonstrations import Pair, draw_texts, frequencies

MARGINS = {"ten": 10, "twenty": 20, "thirty": 30}
ANSWERS = 2  # of a prompt
SILENT = 0.1  # share of the messages that offer nothing
ACCEPT = "accept"
TINY = {"steps": 1000, "batch": 32, "texts": 64000, "most_answers": 2, "adam_lr": 0.003}


def demonstrations(n: int, seed: int) -> list[Pair]:
    """`n` answers: to each prompt that is drawn some choices."""
    return draw_texts("price texts", n, seed, _draw_answers)


def _draw_answers(rng: random.Random) -> list[Pair]:
    """Draw a prompt in a negotiation of random offers, and its answers."""
    env = _make_env()
    observations, _ = env.reset(options={"task": rng.randrange(len(env.tasks))})
    limits = {"seller": env.task["cost"], "buyer": env.task["value"]}
    for turn in range(rng.randrange(2 * env.messages)):
        speaker = price.ROLES[turn % 2]
        text = price.propose(price.ask(speaker, limits[speaker], rng.choice([*MARGINS.values()])))
        observations, *_ = env.step({speaker: "" if rng.random() < SILENT else text})
        if not env.agents:  # the offers were equal
            return []
    role = price.ROLES[env.turn % 2]
    offered = env.offers[price.ROLES[1 - env.turn % 2]]
    word = compare(role, limits[role], offered)
    choices = [*MARGINS] if offered is None else [ACCEPT, *MARGINS]
    often = frequencies(len(choices), "price", role, str(env.turn // 2), word)
    shown = "none" if offered is None else f"{offered:g}"
    talk: Conversation = (Message("user", observations[role]),)
    answers = []
    for choice in rng.choices(choices, often, k=ANSWERS):
        named = shown if choice == ACCEPT else str(price.ask(role, limits[role], MARGINS[choice]))
        answers.append((talk, f"{limits[role]} {shown} {word} {choice} {named}: {price.propose(named)}"))
    return answers


def compare(role: str, limit: int, offered: float | None) -> str:
    """Word for the gain of an offer."""
    if offered is None:
        return "none"
    gain = price.SIGNS[role] * (offered - limit)
    return "loss" if gain < 0 else "thin" if gain < 10 else "fair" if gain < 20 else "good"


@functools.cache
def _make_env() -> price.NegotiationEnv:
    return price.NegotiationEnv(tasks="generated:1:16384", messages=2, fresh=True)
