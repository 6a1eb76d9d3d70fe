"""Scripted builders of words and of houses.

The references share the work out, the twins all build everything, `lazy` of `palaver.envs.base.scripted` nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import cycle

from palaver.core import Conversation
from palaver.envs.base.scripted import first_prompt
from palaver.envs.minecraft.blueprint import Cuboid, boxes, parse_layers, share_out
from palaver.envs.minecraft.world import Palette, Position

_SEAT = re.compile(r"You are builder (\d{1,3}) of (\d{1,3}) ")
_ROW = re.compile(r"^y=(\d{1,3}): (.+)$", re.MULTILINE)
_RUN = re.compile(r"(\d{1,5})(?: to (\d{1,5}))?")
_BLOCKS = re.compile(r"Your blocks: (.+); air empties")
_COMMANDS = re.compile(r"You have (\d{1,6}) commands")
_WORLD = re.compile(r"The world goes from (-?\d{1,6}) (-?\d{1,6}) (-?\d{1,6}) to (-?\d{1,6}) (-?\d{1,6}) (-?\d{1,6}),")
_LIMITS = re.compile(r"You may fill, in cells [a-z ]*: (.+); air without limit")
_LIMIT = re.compile(r"(\d{1,6}) ([^\s,]+)")
KILL = "/kill"
Cell = tuple[int, int]


def _stays(conversation: Conversation) -> bool:
    """Return whether the world was built in an earlier turn and stays."""
    return len(conversation) > 1 and "the world stays as it is" in first_prompt(conversation)


def _builder(prompt: str) -> tuple[int, int]:
    """The agent's number from 0, and the number of builders."""
    match = _SEAT.search(prompt)
    return (int(match[1]) - 1, max(1, int(match[2]))) if match else (0, 1)


# --- words --------------------------------------------------------------------------------------------


def word_reference(conversation: Conversation, _seed: int) -> str:
    """The agent's fields of the chess board, by its blocks in turn.

    With one builder the fields are its blocks'.
    """
    prompt = first_prompt(conversation)
    if _stays(conversation):
        return ""
    index, agents = _builder(prompt)
    blocks = _blocks(prompt)
    if agents == 1:
        fields = _fields(_cells(prompt), len(blocks))
        return _placed(list(fields), [blocks[field] for field in fields.values()])
    return _placed([cell for cell, field in _fields(_cells(prompt), agents).items() if field == index], blocks)


def word_twins(conversation: Conversation, _seed: int) -> str:
    """All cells, as far as the commands go, from every agent alike."""
    prompt = first_prompt(conversation)
    commands_match = _COMMANDS.search(prompt)
    blocks = _blocks(prompt)
    cells = _cells(prompt)[: int(commands_match[1]) if commands_match else None]
    return _placed(cells, [blocks[(x + y) % len(blocks)] for x, y in cells])


def _cells(prompt: str) -> list[Cell]:
    rows = ((int(y), _RUN.findall(text)) for y, text in _ROW.findall(prompt))
    return [(x, y) for y, runs in rows for low, high in runs for x in range(int(low), int(high or low) + 1)]


def _blocks(prompt: str) -> list[str]:
    blocks_match = _BLOCKS.search(prompt)
    return blocks_match[1].split(", ") if blocks_match else ["stone"]


def _fields(cells: Sequence[Cell], kinds: int) -> dict[Cell, int]:
    """Each cell's kind: neighbours differ, and the kinds are about equally many.

    Cells that hang together by their sides have the kinds (x + y + shift) mod `kinds`, each such piece with the shift
    that fills up the rarer kinds.
    """
    fields: dict[Cell, int] = {}
    for piece in _pieces(cells):
        held = Counter(fields.values())
        shifted = [{(x, y): (x + y + shift) % kinds for x, y in piece} for shift in range(kinds)]
        best = min(shifted, key=lambda kind_of: max((held + Counter(kind_of.values())).values()))
        fields |= best
    return fields


def _pieces(cells: Sequence[Cell]) -> list[list[Cell]]:
    """The cells by what hangs together, in order."""
    left = dict.fromkeys(cells)
    pieces = []
    while left:
        piece, edge = [], [next(iter(left))]
        del left[edge[0]]
        while edge:
            x, y = edge.pop()
            piece.append((x, y))
            for near in ((x + 1, y), (x - 1, y), (x, y + 1), (x, y - 1)):
                if near in left:
                    del left[near]
                    edge.append(near)
        pieces.append(sorted(piece, key=lambda cell: (-cell[1], cell[0])))
    return pieces


def _placed(cells: Sequence[Cell], blocks: Sequence[str]) -> str:
    """The commands that fill the cells with the blocks in turn."""
    return "\n".join(f"/setblock {x} {y} 0 {block}" for (x, y), block in zip(cells, cycle(blocks)))


# --- houses -------------------------------------------------------------------------------------------


def house_reference(conversation: Conversation, _seed: int) -> str:
    """The agent's part of the house, cut so that no limit is passed.

    The first builder kills the spiders. Every builder computes the same sharing-out and takes its own part, so the
    world is as planned whenever the limits and the commands allow that. In a world that stays, the answers after the
    first turn are empty.
    """
    prompt = first_prompt(conversation)
    if _stays(conversation):
        return ""
    index, agents = _builder(prompt)
    blocks, palette, limits = _plan(prompt)
    shared = share_out(blocks, agents, limits)
    return _answer(shared[index] if index < len(shared) else [], palette, kill=index == 0 and KILL in prompt)


def house_twins(conversation: Conversation, _seed: int) -> str:
    """All of the house, as far as the limits go, from every agent alike."""
    prompt = first_prompt(conversation)
    blocks, palette, limits = _plan(prompt)
    own_cuboids: list[Cuboid] = []
    for cuboid in blocks:
        if cuboid.volume <= limits.get(cuboid.code, cuboid.volume):
            own_cuboids.append(cuboid)
            limits[cuboid.code] = limits.get(cuboid.code, cuboid.volume) - cuboid.volume
    return _answer(own_cuboids, palette, kill=KILL in prompt)


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


def _answer(blocks: list[Cuboid], palette: Palette, kill: bool) -> str:
    return "\n".join([*([KILL] if kill else []), *(cuboid.command(palette) for cuboid in blocks)])
