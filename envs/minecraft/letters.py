"""Text of a target and a built world: layers side by side, owners of blocks, faults."""

from __future__ import annotations

import string

import numpy as np
from numpy.typing import NDArray

from palaver.envs.minecraft.world import AIR, Cells, Palette, difference
from palaver.text import one_line

WIDTH = 100  # characters of a line; layers that do not fit follow below
AGENT_SYMBOLS = "123456789" + string.ascii_lowercase
_FAULT_SYMBOLS = {0: ".", 1: "-", 2: "+", 3: "x"}
_GAP = "  "


def ansi(target: Cells, built: Cells, palette: Palette, owner: Cells, shape_only: bool = False) -> str:
    """Text of a target and a built world.

    Four bands: `target`, `built`, `who` (the number of the agent that placed the cell) and `wrong` (`-` a block is
    missing, `+` a block is in the place of air, `x` another block than the target's). Air is `.`. A layer is seen from
    above, x to the right and z down; a world one cell deep (z) is seen from the front, x to the right and y up.

    Args:
        target: block codes, (X, Y, Z).
        built: block codes, (X, Y, Z).
        palette: block names; code n is block n - 1.
        owner: (X, Y, Z) number of the agent that placed each cell, 0 for none.
        shape_only: any block counts for any other; those of the target are `#`.
    """
    block_letters = letters(palette)
    built_symbols = {AIR: ".", **dict(enumerate(block_letters, start=1))}
    target_symbols = dict.fromkeys(built_symbols, "#") | {AIR: "."} if shape_only else built_symbols
    owner_symbols = {0: ".", **dict(enumerate(AGENT_SYMBOLS, start=1))}
    bands = {
        "target": _layers(target, target_symbols),
        "built": _layers(built, built_symbols),
        "who": _layers(owner, owner_symbols),
        "wrong": _layers(faults(target, built, shape_only), _FAULT_SYMBOLS),
    }
    headings = [heading for heading, _ in slices(target)]
    counts = ", ".join(summary(target, built, shape_only))
    legend = ", ".join(f"{letter} {one_line(block, 40)}" for letter, block in zip(block_letters, palette, strict=True))
    return "\n".join([counts, legend, "", *_table(headings, bands)])


def letters(palette: Palette) -> list[str]:
    """Letter of each block: an unused initial of a word of its name, else any letter, else `?`.

    >>> letters(("white_concrete", "stone_stairs", "stone_bricks"))
    ['w', 's', 'b']
    """
    taken: list[str] = []
    for block in palette:
        initials = [word[0] for word in block.lower().removeprefix("minecraft:").split("_") if word]
        candidates = (*initials, *block.lower(), *string.ascii_letters)
        taken.append(next((c for c in candidates if c in string.ascii_letters and c not in taken), "?"))
    return taken


def slices(cells: Cells) -> list[tuple[str, Cells]]:
    """Layers of a world as (heading, grid) from the ground up; a front view if Z is 1.

    Args:
        cells: (X, Y, Z). A grid is (Z, X), that of a front view (Y, X); rows run downwards.
    """
    layers = [(f"layer {y}", cells[:, y, :].T) for y in range(cells.shape[1])]
    return layers if cells.shape[2] > 1 else [("", cells[:, ::-1, 0].T)]


def faults(target: Cells, built: Cells, shape_only: bool = False) -> NDArray[np.int16]:
    """Fault of each cell, (X, Y, Z): 0 none, 1 missing block, 2 extra block, 3 wrong block."""
    in_target, in_built = target != AIR, built != AIR
    differs = np.zeros_like(in_target) if shape_only else target != built
    conditions = [in_target & ~in_built, in_built & ~in_target, in_target & in_built & differs]
    return np.select(conditions, [1, 2, 3], 0).astype(np.int16)


def summary(target: Cells, built: Cells, shape_only: bool = False) -> list[str]:
    """Numbers of right blocks, and of missing, extra and wrong ones if there are any."""
    diff = difference(target, built, shape_only)
    parts = [(diff.missing, "missing"), (diff.extra, "extra"), (diff.wrong, "wrong")]
    return [f"{diff.covered} of {diff.target} right", *(f"{count} {kind}" for count, kind in parts if count)]


def _layers(cells: Cells, symbols: dict[int, str]) -> list[list[str]]:
    """Lines of each layer, one symbol a cell."""
    return [["".join(symbols.get(int(code), "?") for code in row) for row in grid] for _, grid in slices(cells)]


def _table(headings: list[str], bands: dict[str, list[list[str]]]) -> list[str]:
    """Lines of the bands one below the other, with as many layers side by side as fit in a line."""
    margin = max(map(len, bands)) + 1
    layer_width = max(len(headings[0]), len(bands["target"][0][0])) + len(_GAP)
    layers_per_line = max(1, (WIDTH - margin) // layer_width)
    lines: list[str] = []
    for start in range(0, len(headings), layers_per_line):
        shown = slice(start, start + layers_per_line)
        if headings[0]:
            lines.append(" " * margin + "".join(heading.ljust(layer_width) for heading in headings[shown]))
        for name, layers in bands.items():
            for index, rows in enumerate(zip(*layers[shown], strict=True)):
                label = name if index == 0 else ""
                lines.append(label.ljust(margin) + "".join(row.ljust(layer_width) for row in rows))
            lines.append("")
    return [line.rstrip() for line in lines[:-1]]
