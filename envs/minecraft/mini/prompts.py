"""Prompts of small-house builders.

Imitation texts answer these very words: a change bumps the version. The lines of the plan are numbered. The number is
the line's name, so that a model which takes a line need not distinguish it from others that begin alike; without
numbers the tiny model copies two lines of five, with them ninety-nine of a hundred.
"""

from __future__ import annotations

import re

from palaver.envs.minecraft.commands import lines_of

_NUMBERED = re.compile(r"\d{1,3}\. \S")


def opening(index: int, agents: int, max_lines: int, lines: str) -> str:
    """The first observation.

    It has the agent's number (from 0), how many lines it may write, and the lines of the plan.
    """
    role = f"You are builder {index + 1} of {agents}." if agents > 1 else "You build alone."
    plan = "\n".join(f"{line_number}. {line}" for line_number, line in enumerate(lines_of(lines), 1))
    return f"{role} Write at most {max_lines} lines of the plan.\n{plan}"


def plan_of(prompt: str) -> list[str]:
    """The lines of the plan in a first observation, with their numbers."""
    return [line for line in prompt.splitlines() if _NUMBERED.match(line)]
