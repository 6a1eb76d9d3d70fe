"""Imitation texts of `coding-mini-v0`: programmers who write each half and agree on nothing."""

from __future__ import annotations

import json
import random
from itertools import product
from pathlib import Path

from palaver.core import Conversation, Message, stable_seed
from palaver.envs.code.mini.family import CONVENTIONS, HELD_OUT, combinations, opening

TINY = {"steps": 300, "batch": 10, "texts": 1944, "adam_lr": 0.003}  # every text once, many prompts a step
SAMPLE = Path(__file__).with_name("sample.jsonl")


def tasks() -> list[dict[str, str]]:
    """All problems, those held out last."""
    return [
        {
            "task_id": f"{combination.filter}-{combination.map}-{combination.aggregate}",
            "filter": combination.filter,
            "map": combination.map,
            "aggregate": combination.aggregate,
        }
        for combination in combinations()
    ]


def demonstrations(n: int, seed: int) -> list[tuple[Conversation, str]]:
    """`n` answers in random order, balanced over the conventions.

    Of every three to a prompt there is one by each.
    """
    every = list(product(combinations()[:-HELD_OUT], ("aux", "main"), CONVENTIONS))
    rng = random.Random(stable_seed("coding-mini demonstrations", seed))
    demos: list[tuple[Conversation, str]] = []
    while len(demos) < n:
        for problem, agent, convention in rng.sample(every, len(every)):
            half = problem.aux(convention) if agent == "aux" else problem.main(convention)
            demos.append(((Message("user", opening(agent, problem.text)),), half))
    return demos[:n]


if __name__ == "__main__":
    SAMPLE.write_text("".join(json.dumps(row) + "\n" for row in tasks()), encoding="utf-8")
