"""Prompts of word builders. A change of these words bumps the version."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from palaver.envs.minecraft.strbuild.reward import Measures, texture
from palaver.envs.minecraft.world import AIR, Cells, Palette


def opening(
    word: str, target: Cells, index: int, shares: Sequence[int], palette: Palette, turns: int, persistent: bool
) -> str:
    """The first observation of the agent with this number, counted from 0."""
    east, top = target.shape[0] - 1, target.shape[1] - 1
    n = len(shares)
    role = f"You are builder {index + 1} of {n} who write one word in blocks at once, unseen by each other."
    lines = [
        f"{role if n > 1 else 'You write a word in blocks.'} Answer with commands alone, one a line:",
        "/setblock x y z block",
        f"The word is {word}. The world goes from 0 0 0 to {east} {top} 0, y is up, and holds only air."
        + (" Builder 1's commands are carried out first; later ones overwrite." if n > 1 else ""),
        "The cells to fill, in each row by x; all else stays air:",
        runs(target[:, :, 0] != AIR),
        f"Your blocks: {', '.join(palette)}; air empties. Use each of them; what shares a side must not look alike.",
        f"You have {shares[index]} commands a turn.",
    ]
    if turns > 1:
        lines.append(
            f"There are {turns} turns; after each the world {'stays as it is' if persistent else 'is emptied'}."
        )
    return "\n".join(lines)


def runs(cells: NDArray[np.bool_]) -> str:
    """Rows of cells from the top, `y=4: 0 to 4, 7`; rows without any are left out.

    `cells` is of shape (x, y).
    """
    lines = []
    for y in reversed(range(cells.shape[1])):
        edges = np.flatnonzero(np.diff(np.concatenate([[False], cells[:, y], [False]]))).reshape(-1, 2)
        ranges = [str(low) if high - low == 1 else f"{low} to {high - 1}" for low, high in edges.tolist()]
        if ranges:
            lines.append(f"y={y}: {', '.join(ranges)}")
    return "\n".join(lines)


def measured(measures: Measures) -> str:
    """Measures of the reward."""
    return (
        f"Covered {measures.coverage:.2f} of the letters and {measures.extra_ratio:.2f} of the rest; "
        f"{measures.adjacent_ratio:.2f} of the sides between blocks have the same look; "
        f"builders who left a block unused: {measures.unused}."
    )


def difference(target: Cells, built: Cells, palette: Palette) -> str:
    """All cells that are to be filled or emptied, and all neighbours that look alike."""
    wanted, stands = target[:, :, 0] != AIR, built[:, :, 0] != AIR
    parts = [
        f"{what}:\n{rows}" if (rows := runs(cells)) else f"{what}: none."
        for what, cells in (("Cells to fill", wanted & ~stands), ("Cells to empty", stands & ~wanted))
    ]
    looks = ["", *map(texture, palette)]
    grid = built[:, :, 0].tolist()
    pairs = [
        f"{x} {y} and {x + right} {y + up}"
        for x, column in enumerate(grid)
        for y, code in enumerate(column)
        for right, up in ((1, 0), (0, 1))
        if code and x + right < len(grid) and y + up < len(column) and looks[grid[x + right][y + up]] == looks[code]
    ]
    return "\n".join([*parts, f"Neighbours that look alike: {'; '.join(pairs) or 'none'}."])
