"""Random houses in the public schema. Pure.

They have a floor, walls with posts, a door and windows, storeys, and a roof.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from palaver.core import stable_seed
from palaver.envs.minecraft.world import AIR, Cells, Palette, counts, empty

Difficulty = Literal["easy", "medium", "hard"]
LETTERS = "BCDEFGHIJ"  # A is air
_WALLS = ("white_concrete", "oak_planks", "sandstone", "bricks", "smooth_stone", "terracotta")
_POSTS = ("obsidian", "oak_log", "stone_bricks", "quartz_block")
_FLOORS = ("stone", "birch_planks", "polished_andesite", "mossy_cobblestone")
_ROOFS = ("spruce_planks", "deepslate_tiles", "red_concrete", "dark_prismarine")
_EDGES = ("stone_stairs", "spruce_stairs", "brick_stairs")


@dataclass(frozen=True, slots=True)
class HouseSize:
    """Sizes of the houses of a difficulty: outer walls, storeys, overhang of the roof."""

    sides: tuple[int, int]
    storey: tuple[int, int]
    storeys: int
    eaves: int
    roofs: tuple[str, ...]


SIZES: Mapping[str, HouseSize] = {
    "easy": HouseSize((4, 5), (2, 3), 1, 0, ("flat",)),
    "medium": HouseSize((4, 6), (3, 3), 1, 1, ("flat", "gable", "hip")),
    "hard": HouseSize((6, 8), (3, 3), 2, 1, ("gable", "hip")),
}


def rows(count: int, seed: int, difficulty: str | None = None) -> list[dict[str, Any]]:
    """`count` different houses.

    Of two counts with one seed, the smaller set begins the larger one.
    """
    difficulty = difficulty or "medium"
    rng = random.Random(stable_seed("housebuild", difficulty, seed))
    seen = set[bytes]()
    houses: list[dict[str, Any]] = []
    while len(houses) < count:
        cells, palette = house(rng, difficulty)
        key = repr((cells.shape, palette)).encode() + cells.tobytes()
        if key not in seen:
            seen.add(key)
            houses.append(row(f"{difficulty}-{seed}-{len(houses):03}", cells, palette))
    return houses


def row(task_id: str, cells: Cells, palette: Palette) -> dict[str, Any]:
    """A world as a row of the public data set."""
    inventory = {"A": "air", **dict(zip(LETTERS, palette, strict=False))}
    letters = list(inventory)
    x, y, z = cells.shape
    plans = [["".join(letters[cells[i, j, k]] for i in range(x)) for k in range(z)] for j in range(y)]
    held = counts(cells, palette)
    return {
        "task_id": task_id,
        "inventory": inventory,
        "count": {"A": int((cells == AIR).sum()), **{c: held.get(b, 0) for c, b in inventory.items() if c != "A"}},
        "target_spec": {
            "type": "y_layers",
            "size": [x, y, z],
            "layers": [{"y": n, "rows": plan} for n, plan in enumerate(plans)],
        },
    }


def house(rng: random.Random, difficulty: str) -> tuple[Cells, Palette]:
    """One house and the names of its blocks."""
    size = SIZES[difficulty]
    width, depth = (rng.randint(*size.sides) for _ in range(2))
    height = rng.randint(*size.storey)
    roof = rng.choice(size.roofs)
    kinds = [_FLOORS, _WALLS, _ROOFS] + ([_POSTS, _EDGES] if size.eaves else []) + ([("glass",)] if size.eaves else [])
    palette = tuple(rng.choice(kind) for kind in kinds)
    m = size.eaves
    walls = size.storeys * (height + 1)
    cells = empty((width + 2 * m, walls + _levels(width + 2 * m, depth + 2 * m, roof), depth + 2 * m))
    inner = cells[m : m + width, :, m : m + depth]
    for storey in range(size.storeys):
        _storey(inner[:, storey * (height + 1) : (storey + 1) * (height + 1)], rng, windows=bool(m), door=not storey)
    _roof(cells[:, walls:], roof, edge=5 if m else 3)
    return cells, palette


def _storey(cells: Cells, rng: random.Random, windows: bool, door: bool) -> None:
    """A floor and walls around it; in place. Codes: 1 floor, 2 wall, 4 post, 6 window."""
    width, _, depth = cells.shape
    cells[:, 0] = 1
    cells[:, 1:] = 2
    cells[1:-1, 1:, 1:-1] = AIR
    if windows:
        cells[:: width - 1, 1:, :: depth - 1] = 4
        for side in (0, width - 1):
            cells[side, 2, rng.randint(1, depth - 2)] = 6
        cells[rng.randint(1, width - 2), 2, depth - 1] = 6
    if door:
        cells[rng.randint(1, width - 2), 1:3, 0] = AIR


def _levels(width: int, depth: int, roof: str) -> int:
    """Height of the roof."""
    return {"flat": 1, "gable": (depth + 1) // 2, "hip": min(3, (min(width, depth) + 1) // 2)}[roof]


def _roof(cells: Cells, roof: str, edge: int) -> None:
    """A roof of block 3 with edges of block `edge`; in place.

    Each level is a step narrower than the one below.
    """
    width, levels, depth = cells.shape
    for level in range(levels):
        across = level if roof == "hip" else 0
        cells[across : width - across, level, level : depth - level] = 3
        for z in (level, depth - 1 - level):
            cells[across : width - across, level, z] = edge
