"""Scripted builders of houses.

`reference` shares the house out, `twins` both build all of it, `lazy` nothing.
"""

from __future__ import annotations

import re

from palaver.core import Conversation
from palaver.envs.base.scripted import first_prompt
from palaver.envs.minecraft.blueprint import Cuboid, boxes, parse_layers, share_out
from palaver.envs.minecraft.world import Palette, Position

_SEAT = re.compile(r"You are builder (\d{1,3}) of (\d{1,3}) ")
_WORLD = re.compile(r"The world goes from (-?\d{1,6}) (-?\d{1,6}) (-?\d{1,6}) to (-?\d{1,6}) (-?\d{1,6}) (-?\d{1,6}),")
_LIMITS = re.compile(r"You may fill, in cells [a-z ]*: (.+); air without limit")
_LIMIT = re.compile(r"(\d{1,6}) ([^\s,]+)")
KILL = "/kill"


def reference(conversation: Conversation, _seed: int) -> str:
    """The agent's part of the house, cut so that no limit is passed.

    The first builder kills the spiders. Every builder computes the same sharing-out and takes its own part, so the
    world is as planned whenever the limits and the commands allow that. In a world that stays, the answers after the
    first turn are empty.
    """
    prompt = first_prompt(conversation)
    if _stays(conversation):
        return ""
    index, agents = _builder(prompt)
    shared, palette = _shared(prompt, agents)
    return _answer(shared[index] if index < len(shared) else [], palette, kill=index == 0 and KILL in prompt)


def twins(conversation: Conversation, _seed: int) -> str:
    """All of the house, as far as the limits go, from every agent alike."""
    prompt = first_prompt(conversation)
    blocks, palette, limits = _plan(prompt)
    own_cuboids: list[Cuboid] = []
    for cuboid in blocks:
        if cuboid.volume <= limits.get(cuboid.code, cuboid.volume):
            own_cuboids.append(cuboid)
            limits[cuboid.code] = limits.get(cuboid.code, cuboid.volume) - cuboid.volume
    return _answer(own_cuboids, palette, kill=KILL in prompt)


def _stays(conversation: Conversation) -> bool:
    return len(conversation) > 1 and "the world stays as it is" in conversation[0].content


def _builder(prompt: str) -> tuple[int, int]:
    match = _SEAT.search(prompt)
    return (int(match[1]) - 1, max(1, int(match[2]))) if match else (0, 1)


def _plan(prompt: str) -> tuple[list[Cuboid], Palette, dict[int, int]]:
    """The boxes of the plan, the names of their blocks, and the limits."""
    corners = _WORLD.search(prompt)
    if not corners:
        return [], (), {}
    a, b, c, d, e, f = map(int, corners.groups())
    low: Position = (a, b, c)
    cells, palette = parse_layers(prompt, low, (d, e, f))
    limits_match = _LIMITS.search(prompt)
    limits = {block: int(max_blocks) for max_blocks, block in _LIMIT.findall(limits_match[1])} if limits_match else {}
    return boxes(cells, low), palette, {n: limits[k] for n, k in enumerate(palette, start=1) if k in limits}


def _shared(prompt: str, agents: int) -> tuple[list[list[Cuboid]], Palette]:
    blocks, palette, limits = _plan(prompt)
    return share_out(blocks, agents, limits), palette


def _answer(blocks: list[Cuboid], palette: Palette, kill: bool) -> str:
    return "\n".join([*([KILL] if kill else []), *(cuboid.command(palette) for cuboid in blocks)])
