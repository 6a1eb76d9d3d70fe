"""Reward of a word of blocks. Pure.

The reward of CoMLRL's StrBuild (OpenMLRL/LLM_Collab_Minecraft, `str_build/rewards`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from palaver.envs.minecraft.world import AIR, Cells, Difference, Palette

COVERAGE, EXTRA, ADJACENT, UNUSED = 2.0, 1.5, 1.0, 0.25
_STONE = ("stone", "cobblestone", "smooth_stone", "stone_bricks")
_FAMILIES = (
    ("wood", ("_planks", "_wood")),
    ("stone", ("_stone", "_stone_bricks")),
    ("concrete", ("_concrete",)),
)


@dataclass(frozen=True, slots=True)
class Measures:
    """Measures that make the reward.

    Attributes:
        coverage: share of the letters' cells that hold a block.
        extra_ratio: share of the other cells that hold a block.
        adjacent_ratio: of the pairs of blocks that share a side, the share of those that look alike.
        unused: number of builders with an unused block.
    """

    coverage: float
    extra_ratio: float
    adjacent_ratio: float
    unused: int


def texture(block: str) -> str:
    """Texture of a block; blocks of one texture are alike.

    >>> texture("oak_planks"), texture("cobblestone"), texture("glass")
    ('wood', 'stone', 'glass')
    """
    low = block.lower()
    return "stone" if low in _STONE else next((family for family, ends in _FAMILIES if low.endswith(ends)), low)


def measure(built: Cells, palette: Palette, difference: Difference, palettes: Sequence[Palette]) -> Measures:
    """Measure a world of shape (x, y, 1).

    Args:
        built: the world.
        palette: of its codes.
        difference: from the target, any block for any other.
        palettes: of each builder.
    """
    looks = {look: index for index, look in enumerate(dict.fromkeys(map(texture, palette)), start=1)}
    alike = np.array([AIR, *(looks[texture(block)] for block in palette)])[built[:, :, 0]]
    pairs = same = 0
    for one, neighbour in ((alike[1:], alike[:-1]), (alike[:, 1:], alike[:, :-1])):
        both = (one != AIR) & (neighbour != AIR)
        pairs += int(np.count_nonzero(both))
        same += int(np.count_nonzero(both & (one == neighbour)))
    stands = {palette[code - 1] for code in np.unique(built) if code}
    background = built.size - difference.target
    return Measures(
        coverage=(difference.covered + difference.wrong) / difference.target,
        extra_ratio=difference.extra / background if background else 0.0,
        adjacent_ratio=same / pairs if pairs else 0.0,
        unused=sum(not stands.issuperset(agent_palette) for agent_palette in palettes),
    )


def components(measures: Measures) -> dict[str, float]:
    """2 * coverage - 1.5 * extra_ratio - 1.0 * adjacent_ratio - 0.25 * unused, term by term."""
    return {
        "coverage": COVERAGE * measures.coverage,
        "extra": 0.0 - EXTRA * measures.extra_ratio,
        "adjacent": 0.0 - ADJACENT * measures.adjacent_ratio,
        "palette": 0.0 - UNUSED * measures.unused,
    }
