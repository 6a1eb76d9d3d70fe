"""Drawing of imitation texts: pairs of a conversation and an answer."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Sequence

from palaver.core import Conversation, stable_seed

OFTEN = (1, 2, 4)  # relative frequencies of an answer in a situation, drawn by chance

Pair = tuple[Conversation, str]


def draw_texts(name: str, n: int, seed: int, draw: Callable[[random.Random], Iterable[Pair]]) -> list[Pair]:
    """The first `n` texts of repeated draws, each with a generator of its own.

    >>> draw_texts("numbers", 3, 0, lambda rng: [((), "one"), ((), "two")])
    [((), 'one'), ((), 'two'), ((), 'one')]
    """
    rngs = (random.Random(stable_seed(name, seed, index)) for index in itertools.count())
    return list(itertools.islice((pair for rng in rngs for pair in draw(rng)), n))


def frequencies(n: int, *situation: str) -> list[int]:
    """Relative frequencies of `n` answers in a situation, drawn by chance."""
    return random.Random(stable_seed("often", *situation)).choices(OFTEN, k=n)


def unequal_answers(conversation: Conversation, actions: Sequence[str], *situation: str) -> list[Pair]:
    """Every action as an answer, as often as the situation has it."""
    often = zip(actions, frequencies(len(actions), *situation), strict=True)
    return [(conversation, f"{action}.") for action, n in often for _ in range(n)]
