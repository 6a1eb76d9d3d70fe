"""Scripted builders of small houses: `reference` shares the lines out, `strangers` take any, `twins` take the same."""

from __future__ import annotations

import random
import re

from palaver.core import Conversation, stable_seed
from palaver.envs.minecraft.mini.prompts import plan_of

_SEAT = re.compile(r"You are builder (\d{1,2}) of (\d{1,2})\. Write at most (\d{1,3}) lines")
FEWEST, MOST = 1, 4  # lines that a stranger takes


def reference(conversation: Conversation, _seed: int) -> str:
    """Every n-th line of the plan by the agent's number, all if alone: the best within limits."""
    seat, agents, _ = _asked(conversation)
    return "\n".join(_plan(conversation)[seat::agents])


def strangers(conversation: Conversation, seed: int) -> str:
    """Any few lines of the plan, without regard to the agent's number."""
    heard = conversation[0].content if conversation else ""
    return take(_plan(conversation), random.Random(stable_seed("build-mini strangers", seed, heard)))


def twins(conversation: Conversation, _seed: int) -> str:
    """The first lines of the plan, as many as allowed: the same from every agent."""
    *_, most = _asked(conversation)
    return "\n".join(_plan(conversation)[:most])


def lazy(_conversation: Conversation, _seed: int) -> str:
    """Says nothing."""
    return ""


def take(plan: list[str], rng: random.Random) -> str:
    """One to four lines of a plan, in its order, drawn without regard to anything."""
    count = min(rng.randint(FEWEST, MOST), len(plan))
    return "\n".join(plan[n] for n in sorted(rng.sample(range(len(plan)), count)))


def _plan(conversation: Conversation) -> list[str]:
    return plan_of(conversation[0].content) if conversation else []


def _asked(conversation: Conversation) -> tuple[int, int, int]:
    """The agent's number from 0, the number of builders, and the lines that each may write."""
    found = _SEAT.match(conversation[0].content) if conversation else None
    seat, agents, most = map(int, found.groups()) if found else (1, 1, len(_plan(conversation)))
    return seat - 1, max(agents, 1), most
