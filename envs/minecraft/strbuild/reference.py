"""Scripted builders of words.

`reference` takes turns like a chess board, `twins` fill everything, `lazy` nothing.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import cycle

from palaver.core import Conversation
from palaver.envs.base.scripted import first_prompt

_SEAT = re.compile(r"You are builder (\d{1,3}) of (\d{1,3}) ")
_ROW = re.compile(r"^y=(\d{1,3}): (.+)$", re.MULTILINE)
_RUN = re.compile(r"(\d{1,5})(?: to (\d{1,5}))?")
_BLOCKS = re.compile(r"Your blocks: (.+); air empties")
_COMMANDS = re.compile(r"You have (\d{1,6}) commands")
Cell = tuple[int, int]


def reference(conversation: Conversation, _seed: int) -> str:
    """The agent's fields of the chess board, by its blocks in turn.

    With one builder the fields are its blocks'.
    """
    prompt = first_prompt(conversation)
    if len(conversation) > 1 and "the world stays as it is" in prompt:
        return ""
    match = _SEAT.search(prompt)
    index, agents = (int(match[1]) - 1, max(1, int(match[2]))) if match else (0, 1)
    blocks = _blocks(prompt)
    if agents == 1:
        fields = _fields(_cells(prompt), len(blocks))
        return _answer((cell, blocks[field]) for cell, field in fields.items())
    own_cells = [cell for cell, field in _fields(_cells(prompt), agents).items() if field == index]
    return _answer(zip(own_cells, cycle(blocks)))


def twins(conversation: Conversation, _seed: int) -> str:
    """All cells, as far as the commands go, from every agent alike."""
    prompt = first_prompt(conversation)
    commands_match = _COMMANDS.search(prompt)
    blocks = _blocks(prompt)
    cells = _cells(prompt)[: int(commands_match[1]) if commands_match else None]
    return _answer(((x, y), blocks[(x + y) % len(blocks)]) for x, y in cells)


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
        shift = min(range(kinds), key=lambda k: max((held + _kinds(piece, kinds, k)).values()))
        fields |= {(x, y): (x + y + shift) % kinds for x, y in piece}
    return fields


def _kinds(piece: Sequence[Cell], kinds: int, shift: int) -> Counter[int]:
    return Counter((x + y + shift) % kinds for x, y in piece)


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


def _answer(placed: Iterable[tuple[Cell, str]]) -> str:
    return "\n".join(f"/setblock {x} {y} 0 {block}" for (x, y), block in placed)
