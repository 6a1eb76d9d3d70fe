"""Houses: where they come from, in the schema of CoMLRL's HouseBuild."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from palaver.core import TaskError
from palaver.envs.base.tasks import ParsedTasks, Task, check_difficulty, read_tasks
from palaver.envs.minecraft.env import BuildTarget
from palaver.envs.minecraft.housebuild import houses
from palaver.envs.minecraft.world import AIR, AIR_NAME, Position, codes, palette_of
from palaver.text import one_line

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
    check_difficulty(source, difficulty, tuple(houses.SIZES))
    return read_tasks(
        source,
        lambda task: plan(task, source),
        sample=partial(houses.rows, difficulty=difficulty),
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
    known = codes(palette)
    table = [[[known[blocks[letter]] for letter in text] for text in r] for r in rows]
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
