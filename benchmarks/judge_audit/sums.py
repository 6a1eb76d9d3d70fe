"""Pairs with a known better answer: sums with a right and a wrong result.

Either is worded briefly or at length at random.

Length, position and correctness are drawn independently, so that a bias towards one of them is visible.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from palaver.core import stable_seed

OPENINGS = ("", "Let us see. ", "The sum is easy to find. ", "First the tens, then the ones, and then both together. ")
CLOSINGS = (
    "",
    " That is all.",
    " I have added the two numbers and written down what came out of it.",
    " One may check this by taking the second number away again, which leaves the first one, as it should be.",
)


def pairs(count: int, seed: int) -> list[Mapping[str, Any]]:
    """`count` rows `prompt first second label`; the same seed gives the same rows."""
    rng = random.Random(stable_seed(seed, "audit", "sums"))
    rows: dict[str, Mapping[str, Any]] = {}
    while len(rows) < count:
        one, two = rng.randint(10, 9_999), rng.randint(10, 9_999)
        right, wrong = one + two, one + two + rng.choice((-100, -10, -1, 1, 10, 100))
        first_is_right = rng.random() < 0.5
        results = (right, wrong) if first_is_right else (wrong, right)
        first, second = (_statement(result, rng) for result in results)
        prompt = f"What is {one} + {two}?"
        label = "first" if first_is_right else "second"
        rows[prompt] = {"prompt": prompt, "first": first, "second": second, "label": label}
    return list(rows.values())


def _statement(result: int, rng: random.Random) -> str:
    return f"{rng.choice(OPENINGS)}It is {result}.{rng.choice(CLOSINGS)}"
