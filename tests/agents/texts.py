"""A generator of very small texts, which a very small model learns in seconds."""

from __future__ import annotations

import random

from palaver.agents.tiny.build import KEYED
from palaver.core import Message

COLOURS = ("red", "green", "blue", "grey")
THINGS = ("boat", "house", "tree", "stone")


def demonstrations(n, seed):
    rng = random.Random(seed)
    found = []
    for _ in range(n):
        colour, thing = rng.choice(COLOURS), rng.choice(THINGS)
        prompt = f"Describe this: the {thing} is {colour}."
        found.append(((Message("user", prompt),), f"We see a {colour} {thing}."))
    return found


def broken(n, seed):
    """Fails when asked for the second time, which is while the model is made."""
    if n != KEYED:
        raise OSError("no space left")
    return demonstrations(n, seed)


def empty(n, seed):
    return []


not_a_function = 3
