"""Scripted builders of houses: `reference` shares the house out, `twins` both build all of it, `lazy` nothing."""

from __future__ import annotations

import re

from palaver.core import Conversation
from palaver.envs.minecraft.blueprint import Cuboid, boxes, parse_layers
from palaver.envs.minecraft.sharing import share_out
from palaver.envs.minecraft.world import Palette, Position

_SEAT = re.compile(r"You are builder (\d{1,3}) of (\d{1,3}) ")
_WORLD = re.compile(r"The world goes from (-?\d{1,6}) (-?\d{1,6}) (-?\d{1,6}) to (-?\d{1,6}) (-?\d{1,6}) (-?\d{1,6}),")
_LIMITS = re.compile(r"You may fill, in cells [a-z ]*: (.+); air without limit")
_LIMIT = re.compile(r"(\d{1,6}) ([^\s,]+)")
KILL = "/kill"


def reference(conversation: Conversation, _seed: int) -> str:
    """The agent's part of the house, cut so that no limit is passed; the first builder kills the spiders.

    Every builder computes the same sharing-out and takes its own part, so the world is as planned whenever the limits
    and the commands allow that. In a world that stays, the answers after the first turn are empty.
    """
    heard = _heard(conversation)
    if _stays(conversation):
        return ""
    seat, agents = _seat(heard)
    shared, palette = _shared(heard, agents)
    return _said(shared[seat] if seat < len(shared) else [], palette, kill=seat == 0 and KILL in heard)


def twins(conversation: Conversation, _seed: int) -> str:
    """All of the house, as far as the limits go, from every agent alike."""
    heard = _heard(conversation)
    blocks, palette, limits = _plan(heard)
    own: list[Cuboid] = []
    for each in blocks:
        if each.volume <= limits.get(each.code, each.volume):
            own.append(each)
            limits[each.code] = limits.get(each.code, each.volume) - each.volume
    return _said(own, palette, kill=KILL in heard)


def lazy(_conversation: Conversation, _seed: int) -> str:
    """Says nothing."""
    return ""


def _heard(conversation: Conversation) -> str:
    return conversation[0].content if conversation else ""


def _stays(conversation: Conversation) -> bool:
    return len(conversation) > 1 and "the world stays as it is" in conversation[0].content


def _seat(heard: str) -> tuple[int, int]:
    found = _SEAT.search(heard)
    return (int(found[1]) - 1, max(1, int(found[2]))) if found else (0, 1)


def _plan(heard: str) -> tuple[list[Cuboid], Palette, dict[int, int]]:
    """The boxes of the plan, the names of their blocks, and the limits."""
    corners = _WORLD.search(heard)
    if not corners:
        return [], (), {}
    a, b, c, d, e, f = map(int, corners.groups())
    low: Position = (a, b, c)
    cells, palette = parse_layers(heard, low, (d, e, f))
    told = _LIMITS.search(heard)
    limits = {block: int(most) for most, block in _LIMIT.findall(told[1])} if told else {}
    return boxes(cells, low), palette, {n: limits[k] for n, k in enumerate(palette, start=1) if k in limits}


def _shared(heard: str, agents: int) -> tuple[list[list[Cuboid]], Palette]:
    blocks, palette, limits = _plan(heard)
    return share_out(blocks, agents, limits), palette


def _said(blocks: list[Cuboid], palette: Palette, kill: bool) -> str:
    return "\n".join([*([KILL] if kill else []), *(each.command(palette) for each in blocks)])
