"""Worlds of blocks: a box of cells, each air or one block of a palette. Pure.

A world is `cells`, an int16 array of shape (x, y, z) that counts from the corner of its box; y is up. 0 is air and
code c > 0 the block `palette[c - 1]`. `owner` is an array of the same shape: the number of the agent that placed the
block, counted from 1, or 0. A position is a triple of absolute integers; the box of a world begins at its `origin`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Cells: TypeAlias = "NDArray[np.int16]"
Palette: TypeAlias = tuple[str, ...]
Position: TypeAlias = tuple[int, int, int]

AIR = 0
AIR_NAME = "air"


class Box(NamedTuple):
    """All positions from `low` to `high`, both included."""

    low: Position
    high: Position


class Difference(NamedTuple):
    """Difference of two worlds of one shape, in cells.

    Attributes:
        same: equal cells, air included.
        covered: target blocks that are built, whatever their kind with `shape_only`.
        extra: cells built where the target has air.
        missing: target blocks where nothing is built.
        wrong: target blocks where another kind is built.
        target: blocks of the target.
    """

    same: int
    covered: int
    extra: int
    missing: int
    wrong: int
    target: int

    @property
    def iou(self) -> float:
        """Right blocks over cells that are a block in either world; 1 for two empty worlds."""
        return self._share(self.covered)

    @property
    def shape_iou(self) -> float:
        """The same where any block counts for any other."""
        return self._share(self.covered + self.wrong)

    @property
    def complete(self) -> bool:
        """True if the worlds are equal."""
        return not (self.extra or self.missing or self.wrong)

    def _share(self, cells: int) -> float:
        union = self.target + self.extra
        return cells / union if union else 1.0


def empty(size: Position) -> Cells:
    """A world of air, of `size` cells along x, y and z."""
    return np.zeros(size, dtype=np.int16)


def box_of(size: Position, origin: Position = (0, 0, 0)) -> Box:
    """The box of a world whose corner is at `origin`."""
    return Box(origin, (origin[0] + size[0] - 1, origin[1] + size[1] - 1, origin[2] + size[2] - 1))


def difference(target: Cells, built: Cells, shape_only: bool = False) -> Difference:
    """Compare two worlds; with `shape_only` any block counts for any other."""
    if shape_only:
        target, built = (target != AIR).astype(np.int16), (built != AIR).astype(np.int16)
    wanted, stands, same = target != AIR, built != AIR, target == built
    count = np.count_nonzero
    n_target, n_both = int(count(wanted)), int(count(wanted & stands))
    covered = int(count(wanted & same))
    return Difference(
        same=int(count(same)),
        covered=covered,
        extra=int(count(stands)) - n_both,
        missing=n_target - n_both,
        wrong=n_both - covered,
        target=n_target,
    )


def differing(target: Cells, built: Cells, origin: Position = (0, 0, 0)) -> Iterator[tuple[Position, int, int]]:
    """Yield the cells that differ, by y, z, x: position, the wanted and the built code."""
    for y, z, x in np.argwhere((target != built).transpose(1, 2, 0)).tolist():
        yield (x + origin[0], y + origin[1], z + origin[2]), int(target[x, y, z]), int(built[x, y, z])


def name(code: int, palette: Palette) -> str:
    """The block of a code, `air` for 0."""
    return palette[code - 1] if code else AIR_NAME


def codes(palette: Palette) -> dict[str, int]:
    """Block name -> code, air included."""
    return {AIR_NAME: AIR, **{block: code for code, block in enumerate(palette, start=1)}}


def counts(cells: Cells, palette: Palette) -> dict[str, int]:
    """Block -> how many cells hold it, for the blocks that occur, in the palette's order."""
    block_counts = np.bincount(cells.ravel(), minlength=len(palette) + 1)
    return {block: int(n) for block, n in zip(palette, block_counts[1:], strict=False) if n}


def palette_of(blocks: Iterable[str]) -> Palette:
    """The different blocks in the order they first come, air left out."""
    return tuple(dict.fromkeys(block for block in blocks if block != AIR_NAME))
