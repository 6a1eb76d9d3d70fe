"""Houses: generated ones, and where others come from, in the schema of CoMLRL's HouseBuild."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import numpy as np

from palaver.core import TaskError, stable_seed
from palaver.envs.base.tasks import ParsedTasks, Task, check_difficulty, read_tasks
from palaver.envs.minecraft.env import BuildTarget
from palaver.envs.minecraft.world import AIR, AIR_NAME, Cells, Palette, Position, codes, counts, empty, palette_of
from palaver.text import one_line

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
    w, d = width + 2 * m, depth + 2 * m
    levels = {"flat": 1, "gable": (d + 1) // 2, "hip": min(3, (min(w, d) + 1) // 2)}
    cells = empty((w, walls + levels[roof], d))
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


AIRS = (AIR_NAME, "cave_air", "void_air")
MOST_SIDE = 32  # cells along an axis
Layers = dict[int, list[str]]


def load(source: str | Path, difficulty: str | None = None) -> tuple[tuple[Task, ...], ParsedTasks[BuildTarget]]:
    """Tasks with `inventory` and `target_spec`, and their plans.

    `inventory` maps letters to blocks, `layers` of `target_spec` are rows of letters.

    Args:
        source: `sample`, `generated:SEED:COUNT`, a path, or `hf:NAME:SPLIT`.
        difficulty: of generated houses; None is `medium`.

    Raises:
        ConfigError: a difficulty that does not exist, or one for houses that are not generated.
        TaskError: no house can be read; see `palaver.envs.base.tasks.load_tasks` for the others.
    """
    check_difficulty(source, difficulty, tuple(SIZES))
    return read_tasks(
        source,
        lambda task: plan(task, source),
        sample=partial(rows, difficulty=difficulty),
        fields={"inventory": dict, "target_spec": dict},
        id_field="task_id",
    )


def plan(task: Task, source: object = "tasks") -> BuildTarget:
    """The plan of one house.

    Raises:
        TaskError: its layers do not make a box of known letters with at least one block, at most 32 cells each way.
    """
    location = one_line(f"{source}, task {task.id!r}")
    try:
        blocks = _inventory(task["inventory"])
        layers = _layers(task["target_spec"].get("layers"))
        declared_size = task["target_spec"].get("size")
        corners = _corners(task.data.get("bbox"))
        _require(sorted(layers) == list(range(min(layers), max(layers) + 1)), "a layer is missing")
        rows = [layers[y] for y in sorted(layers)]
        depth, width = len(rows[0]), len(rows[0][0])
        _require(all(len(r) == depth for r in rows), "its layers have different numbers of rows")
        _require(all(len(text) == width for r in rows for text in r), "its rows have different lengths")
        size = (width, len(rows), depth)
        sizes = [
            size,
            *([_triple(declared_size, "target_spec.size")] if declared_size else []),
            *([corners[1]] if corners else []),
        ]
        _require(len(set(sizes)) == 1, f"its layers are {size} cells along x, y, z; size or bbox says otherwise")
        _require(max(size) <= MOST_SIDE, f"it is larger than {MOST_SIDE} cells along an axis")
        unknown = sorted({letter for r in rows for text in r for letter in text} - set(blocks))
        _require(not unknown, f"the inventory lacks the letter {''.join(unknown)[:1]!r}")
    except _UnfitError as fault:
        raise TaskError(f"{location}: the house cannot be built: {fault}") from fault
    palette = palette_of(blocks.values())
    known = {letter: codes(palette)[block] for letter, block in blocks.items()}
    table = [[[known[letter] for letter in text] for text in r] for r in rows]
    target = np.array(table, dtype=np.int16).transpose(2, 0, 1).copy()
    if not (target != AIR).any():
        raise TaskError(f"{location}: the house cannot be built: it is nothing but air")
    target.setflags(write=False)
    return BuildTarget(target, palette, corners[0] if corners else (0, min(layers), 0))


class _UnfitError(ValueError):
    """Error of a row that does not fit; its text is the reason."""


def _require(holds: bool, fault: str) -> None:
    if not holds:
        raise _UnfitError(fault)


def _inventory(given: Mapping[Any, Any]) -> dict[str, str]:
    """Letter -> block without prefix; every kind of air is `air`.

    None occurs where tables fill up missing fields.
    """
    given = {letter: block for letter, block in given.items() if block is not None}
    _require(
        all(isinstance(k, str) and len(k) == 1 and isinstance(v, str) for k, v in given.items()),
        "its inventory must map single letters to blocks",
    )
    names = {letter: block.strip().removeprefix("minecraft:") for letter, block in given.items()}
    _require(all(name and len(name.split()) == 1 for name in names.values()), "a block's name must be one word")
    return {letter: AIR_NAME if name in AIRS else name for letter, name in names.items()}


def _layers(given: object) -> Layers:
    """Height -> rows, from a list of {y, rows} or a mapping."""
    if isinstance(given, Mapping):
        given = [{"y": y, "rows": rows} for y, rows in given.items()]
    if not isinstance(given, list) or not given:
        raise _UnfitError("target_spec lacks its layers")
    layers: Layers = {}
    for layer in given:
        y, rows = (layer.get("y"), layer.get("rows")) if isinstance(layer, Mapping) else (None, None)
        height = _parse_int(y, "the y of a layer must be a whole number")
        if not isinstance(rows, list) or not rows or not all(isinstance(text, str) and text for text in rows):
            raise _UnfitError(f"the rows of layer {height} must be a list of texts")
        _require(height not in layers, f"the layer {height} stands twice")
        layers[height] = rows
    return layers


def _parse_int(value: object, fault: str) -> int:
    if isinstance(value, str) and len(value) < 6 and value.removeprefix("-").isdecimal():
        return int(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 100_000:
        return value
    raise _UnfitError(fault)


def _triple(value: object, what: str) -> Position:
    fault = f"{what} must be three whole numbers"
    if not isinstance(value, list) or len(value) != 3:
        raise _UnfitError(fault)
    x, y, z = (_parse_int(coordinate, fault) for coordinate in value)
    return x, y, z


def _corners(bbox: object) -> tuple[Position, Position] | None:
    """The lowest corner of a bounding box and its size."""
    if bbox is None:
        return None
    ends = bbox if isinstance(bbox, Mapping) else {}
    one, end = (_triple(ends.get(name), f"bbox.{name}") for name in ("from", "to"))
    (a, d), (b, e), (c, f) = (sorted(pair) for pair in zip(one, end, strict=True))
    return (a, b, c), (d - a + 1, e - b + 1, f - c + 1)
