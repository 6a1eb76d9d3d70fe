"""Carrying out commands: later ones overwrite earlier ones. Pure but for the arrays given."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palaver.envs.minecraft.commands import ParsedCommands
from palaver.envs.minecraft.world import AIR, Cells

NOWHERE = -1  # the code of a cell that no command reached
AT_ONCE = 2_000_000  # cells times commands that are looked at in one go


def carry_out(cells: Cells, owner: Cells, readings: Sequence[ParsedCommands]) -> list[NDArray[np.bool_]]:
    """Change `cells` and `owner` in place by the agents' commands, in the order of `readings`.

    Returns:
        For each agent, True for the cells that hold a block after its own commands alone. Shape of the world.
    """
    commands = sum(len(reading.codes) for reading in readings)
    leave = _at_once if cells.size * commands <= AT_ONCE else _one_by_one
    placed = []
    for agent, visible_boxes in enumerate(leave(cells.shape, readings), start=1):
        holds = visible_boxes > AIR
        np.copyto(cells, visible_boxes, where=visible_boxes != NOWHERE)
        np.copyto(owner, np.where(holds, np.int16(agent), np.int16(0)), where=visible_boxes != NOWHERE)
        placed.append(holds)
    return placed


def _one_by_one(shape: tuple[int, ...], readings: Sequence[ParsedCommands]) -> list[Cells]:
    """Of each agent what its commands leave: codes, `NOWHERE` where none of them reached."""
    left = []
    for reading in readings:
        cells = np.full(shape, NOWHERE, dtype=np.int16)
        for (a, b, c, d, e, f), code in zip(reading.boxes.tolist(), reading.codes.tolist(), strict=True):
            cells[a : d + 1, b : e + 1, c : f + 1] = code
        left.append(cells)
    return left


def _at_once(shape: tuple[int, ...], readings: Sequence[ParsedCommands]) -> list[Cells]:
    """The same in one go over all commands: each cell looks for the newest box that holds it."""
    background = np.array([[0, 0, 0, *shape]])  # behind the oldest box of each agent one that holds everything
    boxes = np.concatenate([array for parsed in readings for array in (parsed.boxes[::-1], background)]).T
    x, y, z = (
        (boxes[axis] <= coordinates) & (coordinates <= boxes[axis + 3])
        for axis, coordinates in enumerate(np.arange(n)[:, None] for n in shape)
    )
    held = x[:, None, None] & (y[:, None] & z)  # (X, Y, Z, commands)
    left, start = [], 0
    for reading in readings:
        codes = np.full(len(reading.codes) + 1, NOWHERE, dtype=np.int16)
        codes[:-1] = reading.codes[::-1]
        left.append(codes[held[..., start : start + len(codes)].argmax(-1)])
        start += len(codes)
    return left
