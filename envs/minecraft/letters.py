"""Two worlds in letters, layers next to each other, the target above.

They show who built what, and what is wrong.
"""

from __future__ import annotations

import string

import numpy as np
from numpy.typing import NDArray

from palaver.envs.minecraft.world import AIR, Cells, Palette, difference
from palaver.text import one_line

WIDTH = 100  # characters a line may take before layers go on below
AGENTS = "123456789" + string.ascii_lowercase
_GAP = "  "


def ansi(target: Cells, built: Cells, palette: Palette, owner: Cells, shape_only: bool = False) -> str:
    """A target and a built world as text, for a terminal.

    Four bands: `target`, `built`, `who` (the number of the agent that placed the cell) and `wrong` (`-` a block is
    missing, `+` a block is in the place of air, `x` another block than the target's). Air is `.`. A layer is seen from
    above, x to the right and z down; a world one cell deep (z) is seen from the front, x to the right and y up.

    Args:
        target: codes, shape (x, y, z).
        built: likewise.
        palette: block names.
        owner: number of the agent that placed each cell, 0 for none.
        shape_only: any block counts for any other; those of the target are `#`.
    """
    symbols = {AIR: ".", **dict(enumerate(letters(palette), start=1))}
    wanted = dict.fromkeys(symbols, "#") | {AIR: "."} if shape_only else symbols
    bands = {
        "target": [[_row(row, wanted) for row in grid] for _, grid in slices(target)],
        "built": [[_row(row, symbols) for row in grid] for _, grid in slices(built)],
        "who": [[_row(row, _numbers()) for row in grid] for _, grid in slices(owner)],
        "wrong": [
            [_row(row, {0: ".", 1: "-", 2: "+", 3: "x"}) for row in g]
            for _, g in slices(faults(target, built, shape_only))
        ],
    }
    heads = [head for head, _ in slices(target)]
    legend = ", ".join(
        f"{symbol} {one_line(block, 40)}" for symbol, block in zip(letters(palette), palette, strict=True)
    )
    return "\n".join([_summary(target, built, shape_only), legend, "", *_table(heads, bands)])


def letters(palette: Palette) -> list[str]:
    """A letter for each block: the first of a word of its name that is free, else any that is.

    >>> letters(("white_concrete", "stone_stairs", "stone_bricks"))
    ['w', 's', 'b']
    """
    taken: list[str] = []
    for block in palette:
        initials = [word[0] for word in block.lower().removeprefix("minecraft:").split("_") if word]
        wanted = [*initials, *block.lower(), *string.ascii_letters]
        free = (c for c in wanted if c in string.ascii_letters and c not in taken)
        taken.append(next(free, "?"))
    return taken


def slices(cells: Cells) -> list[tuple[str, Cells]]:
    """Layers of a world as (heading, grid), rows downwards.

    From the ground up, or one front view if z is flat.
    """
    if cells.shape[2] == 1:
        return [("", cells[:, ::-1, 0].T)]
    return [(f"layer {y}", cells[:, y, :].T) for y in range(cells.shape[1])]


def faults(target: Cells, built: Cells, shape_only: bool = False) -> NDArray[np.int16]:
    """Fault of each cell: 0 none, 1 a block is missing, 2 one too many, 3 another block."""
    wanted, stands = target != AIR, built != AIR
    mismatched = np.zeros_like(wanted) if shape_only else target != built
    return np.select([wanted & ~stands, stands & ~wanted, wanted & stands & mismatched], [1, 2, 3], 0).astype(np.int16)


def summary(target: Cells, built: Cells, shape_only: bool = False) -> list[str]:
    """Numbers of right blocks, and of cells that lack one, hold one too many, or another."""
    diff = difference(target, built, shape_only)
    parts = [(diff.missing, "missing"), (diff.extra, "extra"), (diff.wrong, "wrong")]
    return [f"{diff.covered} of {diff.target} right", *(f"{count} {what}" for count, what in parts if count)]


def _summary(target: Cells, built: Cells, shape_only: bool) -> str:
    return ", ".join(summary(target, built, shape_only))


def _numbers() -> dict[int, str]:
    return {0: ".", **dict(enumerate(AGENTS, start=1))}


def _row(codes: Cells, symbols: dict[int, str]) -> str:
    return "".join(symbols.get(int(code), "?") for code in codes)


def _table(heads: list[str], bands: dict[str, list[list[str]]]) -> list[str]:
    """The bands one below the other, as many layers side by side as fit a line."""
    margin = max(map(len, bands)) + 1
    wide = max(len(heads[0]), len(bands["target"][0][0])) + len(_GAP)
    fit = max(1, (WIDTH - margin) // wide)
    lines: list[str] = []
    for start in range(0, len(heads), fit):
        chosen = slice(start, start + fit)
        if heads[0]:
            lines.append(" " * margin + "".join(head.ljust(wide) for head in heads[chosen]))
        for name, layers in bands.items():
            for index, row in enumerate(zip(*layers[chosen], strict=True)):
                lines.append((name if index == 0 else "").ljust(margin) + "".join(cells.ljust(wide) for cells in row))
            lines.append("")
    return [line.rstrip() for line in lines[:-1]]
