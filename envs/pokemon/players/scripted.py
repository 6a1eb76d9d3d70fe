"""Scripted policies for `pokemon-v1`, which read the text alone.

The stronger ones are in `heuristics`.
"""

from __future__ import annotations

import re

from palaver.core import Conversation, stable_seed

_LISTED = re.compile(r"^\d+\. ((?:move|switch|lead|revive) [a-z0-9]+(?: [a-z]+)?)(?: \((.*)\))?$", re.MULTILINE)
_POWER = re.compile(r"power (\d+|varying), x([\d.]+) on them, (?:accuracy (\d+)|always hits)")


def reference(conversation: Conversation, seed: int) -> str:
    """The listed move with the largest power x effectiveness x accuracy.

    Where none does damage, it is any action, drawn at random.
    """
    listed = _LISTED.findall(conversation[-1].content) if conversation else []
    if not listed:
        return ""
    worth = {action: _worth(about) for action, about in listed if action.count(" ") == 1}
    best_worth = max(worth.values(), default=0.0)
    best = (
        [action for action in worth if worth[action] == best_worth] if best_worth else [action for action, _ in listed]
    )
    return str(best[stable_seed("pokemon", conversation[-1].content, seed) % len(best)])


def uniform(conversation: Conversation, seed: int) -> str:
    """Any of the listed actions, drawn by the seed and the text."""
    listed = _LISTED.findall(conversation[-1].content) if conversation else []
    return str(listed[stable_seed("pokemon", conversation[-1].content, seed) % len(listed)][0]) if listed else ""


def _worth(about: str) -> float:
    match = _POWER.search(about)
    if not match:
        return 0.0
    power, effect, accuracy = match.groups()
    return (60.0 if power == "varying" else float(power)) * float(effect) * float(accuracy or 100)
