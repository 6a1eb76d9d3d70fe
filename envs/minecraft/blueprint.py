"""Worlds as few rectangles per layer, and as few boxes. Pure.

Prompts show rectangles, scripted builders build boxes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from palaver.envs.minecraft.world import AIR, AIR_NAME, Cells, Palette, Position, codes, empty, name

_LAYER = re.compile(r"y=(-?\d{1,4})(?: to (-?\d{1,4}))?: (.+)")
_RECTANGLE = re.compile(r"(-?\d{1,4}) (-?\d{1,4}) (-?\d{1,4}) (-?\d{1,4}) (\S+)")


class Cuboid(NamedTuple):
    """A box of one kind, all coordinates absolute and included: six numbers and a code."""

    x1: int
    y1: int
    z1: int
    x2: int
    y2: int
    z2: int
    code: int

    @property
    def volume(self) -> int:
        """Number of cells."""
        return (self.x2 - self.x1 + 1) * (self.y2 - self.y1 + 1) * (self.z2 - self.z1 + 1)

    def command(self, palette: Palette) -> str:
        """The fill that builds it."""
        return f"/fill {' '.join(map(str, self[:6]))} {name(self.code, palette)}"


def boxes(
    cells: Cells, origin: Position = (0, 0, 0), where: NDArray[np.bool_] | None = None, up: bool = True
) -> list[Cuboid]:
    """Boxes that hold each cell of `where` once (every block, if None).

    They are grown greedily along x, then z, then y.

    Args:
        cells: a world.
        origin: its lowest corner.
        where: the cells to hold, of any kind, air included.
        up: False keeps each box in one layer.
    """
    left = np.array(cells != AIR if where is None else where)
    cuboids = []
    for y, z, x in np.argwhere(left.transpose(1, 2, 0)).tolist():
        if not left[x, y, z]:
            continue
        code = cells[x, y, z]
        free = left & (cells == code)
        east = x + _run(free[x:, y, z])
        north = z + _run(free[x:east, y, z:].all(axis=0))
        top = y + _run(free[x:east, y:, z:north].all(axis=(0, 2))) if up else y + 1
        left[x:east, y:top, z:north] = False
        a, b, c = origin
        cuboids.append(Cuboid(x + a, y + b, z + c, east + a - 1, top + b - 1, north + c - 1, int(code)))
    return cuboids


def layers(cells: Cells, palette: Palette, origin: Position = (0, 0, 0), where: NDArray[np.bool_] | None = None) -> str:
    """One line for each layer, `y=0: x1 z1 x2 z2 block; ...`.

    Equal neighbours are merged as `y=1 to 2: ...`.
    """
    by_layer: dict[int, list[str]] = {}
    for box in boxes(cells, origin, where, up=False):
        by_layer.setdefault(box.y1, []).append(f"{box.x1} {box.z1} {box.x2} {box.z2} {name(box.code, palette)}")
    runs: list[tuple[int, int, str]] = []
    for y, texts in by_layer.items():
        line = "; ".join(texts)
        if runs and runs[-1][1:] == (y - 1, line):
            runs[-1] = (runs[-1][0], y, line)
        else:
            runs.append((y, y, line))
    return "\n".join(f"y={low}{f' to {high}' if high > low else ''}: {line}" for low, high, line in runs)


def parse_layers(text: str, low: Position, high: Position) -> tuple[Cells, Palette]:
    """The world that `layers` wrote, with the blocks in the order of their names.

    Other lines are passed over.
    """
    parsed = [
        (*map(int, (x1, start, z1, x2, end or start, z2)), block)
        for start, end, line in _LAYER.findall(text)
        for x1, z1, x2, z2, block in _RECTANGLE.findall(line.replace(";", " "))
    ]
    palette = tuple(sorted({str(block) for *_, block in parsed} - {AIR_NAME}))
    known = codes(palette)
    cells = empty((high[0] - low[0] + 1, high[1] - low[1] + 1, high[2] - low[2] + 1))
    for *corners, block in parsed:
        a, b, c, d, e, f = (max(0, int(n) - low[k % 3]) for k, n in enumerate(corners))
        cells[a : d + 1, b : e + 1, c : f + 1] = known[str(block)]
    return cells, palette


def _run(free: NDArray[np.bool_]) -> int:
    """Number of leading free cells."""
    return len(free) if free.all() else int(free.argmin())


def share_out(blocks: Sequence[Cuboid], agents: int, limits: Mapping[int, int]) -> list[list[Cuboid]]:
    """Give every box to one of the agents, cutting a box only where no agent may fill all of it.

    A kind's boxes go, the largest first, to the agent that may still fill most of it. All cells are given out as long
    as the agents' limits together reach the number of cells, for a box can be cut down to single cells; with limits of
    ceil(c / n) + floor(c / 2n) for c cells of a kind and n agents they do.

    Args:
        blocks: boxes that do not overlap.
        agents: how many builders.
        limits: code -> most cells that one agent may fill with it; a code left out has no limit.

    Returns:
        The boxes of each agent; from the ground up.
    """
    given: list[list[Cuboid]] = [[] for _ in range(agents)]
    for code in dict.fromkeys(cuboid.code for cuboid in blocks):
        waiting = sorted((cuboid for cuboid in blocks if cuboid.code == code), key=lambda cuboid: cuboid.volume)
        left = [limits.get(code, sum(cuboid.volume for cuboid in waiting))] * agents
        while waiting and any(left):
            box = waiting.pop()
            agent = max(range(agents), key=lambda n: (left[n], -len(given[n]), -n))
            piece, remainder = _cut(box, left[agent])
            given[agent].append(piece)
            left[agent] -= piece.volume
            waiting += remainder
            waiting.sort(key=lambda cuboid: cuboid.volume)
    return [sorted(cuboids, key=lambda cuboid: (cuboid.y1, cuboid.z1, cuboid.x1)) for cuboids in given]


def _cut(box: Cuboid, max_volume: int) -> tuple[Cuboid, list[Cuboid]]:
    """A part of a box of at most `max_volume` cells (1 or more), and the remainder.

    The part is as large as whole slices allow.
    """
    remainder: list[Cuboid] = []
    while box.volume > max_volume:
        sides = {axis: box[axis + 3] - box[axis] + 1 for axis in range(3)}
        axis = max((n for n in sides if sides[n] > 1), key=lambda n: _worth(box.volume, sides[n], max_volume))
        slices = max(1, min(sides[axis] - 1, max_volume // (box.volume // sides[axis])))
        numbers = list(box)
        numbers[axis + 3] = box[axis] + slices - 1
        others = list(box)
        others[axis] = numbers[axis + 3] + 1
        remainder.append(Cuboid(*others))
        box = Cuboid(*numbers)
    return box, remainder


def _worth(volume: int, side: int, max_volume: int) -> tuple[int, int]:
    """Cells of whole slices across an axis within `max_volume`; ties go to the thinner slice."""
    slice_ = volume // side
    return (max_volume // slice_) * slice_, -slice_
