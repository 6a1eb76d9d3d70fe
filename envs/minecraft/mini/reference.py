"""Scripted builders of small houses.

`reference` shares the lines out, `strangers` take any, `twins` take the same.
"""

from __future__ import annotations

import random
import re

from palaver.core import Conversation, stable_seed
from palaver.envs.base.scripted import first_prompt
from palaver.envs.minecraft.mini.houses import plan_of

_SEAT = re.compile(r"You are builder (\d{1,2}) of (\d{1,2})\. Write at most (\d{1,3}) lines")
FEWEST, MOST = 1, 4  # lines that a stranger takes


def reference(conversation: Conversation, _seed: int) -> str:
    """Every n-th line of the plan by the agent's number, all if alone: the best within limits."""
    index, agents, _ = _parse_prompt(conversation)
    return "\n".join(plan_of(first_prompt(conversation))[index::agents])


def strangers(conversation: Conversation, seed: int) -> str:
    """Any few lines of the plan, without regard to the agent's number."""
    prompt = first_prompt(conversation)
    return take(plan_of(first_prompt(conversation)), random.Random(stable_seed("build-mini strangers", seed, prompt)))


def twins(conversation: Conversation, _seed: int) -> str:
    """The first lines of the plan, as many as allowed: the same from every agent."""
    *_, max_lines = _parse_prompt(conversation)
    return "\n".join(plan_of(first_prompt(conversation))[:max_lines])


def take(plan: list[str], rng: random.Random) -> str:
    """One to four lines of a plan, in its order, drawn without regard to anything."""
    count = min(rng.randint(FEWEST, MOST), len(plan))
    return "\n".join(plan[n] for n in sorted(rng.sample(range(len(plan)), count)))


def _parse_prompt(conversation: Conversation) -> tuple[int, int, int]:
    """The agent's number from 0, the number of builders, and the lines that each may write."""
    match = _SEAT.match(first_prompt(conversation))
    builder, agents, max_lines = map(int, match.groups()) if match else (1, 1, len(plan_of(first_prompt(conversation))))
    return builder - 1, max(agents, 1), max_lines
