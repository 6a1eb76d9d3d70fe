"""The parts of a picture.

They are the two worlds in three dimensions, the layers, who built what, and the legend.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from palaver.envs.minecraft.canvas import MUTED, Canvas, alpha, text_width
from palaver.envs.minecraft.colors import RGB, colors, rgb, shaded
from palaver.envs.minecraft.letters import faults, slices, summary
from palaver.envs.minecraft.projection import CORNER, FRONT, ViewAngle, extent, faces
from palaver.envs.minecraft.world import AIR, Cells, Palette
from palaver.text import one_line

MARGIN, HEAD, LEGEND = 18, 38, 30  # pixels: around, above a panel, a line of the legend
TITLE, TEXT = 19.0, 16.0  # pixels: the size of words
LARGEST = 46.0  # pixels a cell's side may take
WRONG = rgb("#e0192f")
AGENTS = tuple(rgb(code) for code in ("#2864dc", "#e07b1a", "#15916b", "#a13cb4", "#8a7a00", "#5f7087"))
_LIGHT = {0: 0.88, 1: 1.14, 2: 1.0}  # how a face across x, y, z is shaded
_AIR: RGB = (1.0, 1.0, 1.0)
_LINE: RGB = (0.86, 0.87, 0.89)
_ANY = rgb("#9aa3b2")  # a target block of any kind


@dataclass(frozen=True)
class PictureContents:
    """Contents of a picture; see `picture.rgb_array`."""

    target: Cells
    built: Cells
    palette: Palette
    owner: Cells | None
    shape_only: bool

    @property
    def flat(self) -> bool:
        """One cell deep: a sign, seen from the front."""
        return bool(self.target.shape[2] == 1)

    @property
    def view(self) -> ViewAngle:
        """From where it is seen."""
        return FRONT if self.flat else CORNER

    @cached_property
    def faults(self) -> NDArray[np.int16]:
        """0 where a cell is right."""
        return faults(self.target, self.built, self.shape_only)

    @property
    def agents(self) -> int:
        """The highest number of an agent that placed something, at least 1."""
        return 1 if self.owner is None else max(1, int(self.owner.max()))

    @cached_property
    def colors(self) -> list[RGB]:
        """By code, air first."""
        return [_AIR, *colors(self.palette)]

    @cached_property
    def wanted(self) -> list[RGB]:
        """The colours of the target: one for all blocks where any will do."""
        return [_AIR, *([_ANY] * len(self.palette))] if self.shape_only else self.colors


def draw(canvas: Canvas, scene: PictureContents) -> None:
    """Put the whole picture on an empty canvas and set its height."""
    y = _worlds(canvas, scene, MARGIN)
    if not scene.flat:
        y = _layers(canvas, scene, y + 10)
    if scene.owner is not None:
        y = _who(canvas, scene, y + 10)
    canvas.height = round(_legend(canvas, scene, y + 10))


# --- in three dimensions ----------------------------------------------------------------------------


def _worlds(canvas: Canvas, scene: PictureContents, y: float) -> float:
    """Draw target and built world, or for a sign one below the other; returns the lower end."""
    across = 1 if scene.flat else 2
    low, high = extent(scene.target.shape, scene.view)
    room = (canvas.width - MARGIN * (across + 1)) / across
    scale = min(LARGEST, room / float(high[0] - low[0]), 340 / float(high[1] - low[1]))
    tall = float(high[1] - low[1]) * scale
    head = HEAD if scene.flat else HEAD + 10  # where panels are narrow, the note is below the title
    summary_text = " · ".join(summary(scene.target, scene.built, scene.shape_only))
    for index, (title, note) in enumerate((("target", ""), ("built", summary_text))):
        left = MARGIN + (index % across) * (room + MARGIN)
        top = y + (index // across) * (tall + head + 8)
        _heading(canvas, left, top, title, note if scene.flat else "")
        if not scene.flat:
            size = min(TEXT, TEXT * room / max(1.0, text_width(note, TEXT)))
            canvas.write(left, top + 33, note, size, MUTED)
        middle = left + room / 2 - float(high[0] + low[0]) / 2 * scale
        center = np.array([middle, top + head - float(low[1]) * scale])
        if title == "target":
            _world(canvas, scene, scene.target, scene.wanted, np.zeros_like(scene.faults), scale, center)
        else:
            _world(canvas, scene, scene.built, scene.colors, scene.faults, scale, center)
    return y + (2 // across) * (tall + head + 8)


def _heading(canvas: Canvas, x: float, y: float, title: str, note: str = "") -> None:
    canvas.write(x, y + 9, title, TITLE, bold=True)
    canvas.write(_after(x, title), y + 10, note, TEXT, MUTED)


def _after(x: float, title: str) -> float:
    """Position where text may follow a heading, whose letters are bold."""
    return x + 1.3 * text_width(title, TITLE) + 18


def _world(
    canvas: Canvas,
    scene: PictureContents,
    cells: Cells,
    code_colors: list[RGB],
    wrong: NDArray[np.int16],
    scale: float,
    center: NDArray[np.float64],
) -> None:
    """Draw one world: the ground, then every visible face; ghosts mark missing blocks."""
    size = cells.shape
    ground = np.array([(0, 0, 0), (size[0], 0, 0), (size[0], 0, size[2]), (0, 0, size[2])], dtype=np.float64)
    canvas.polygon(scene.view.project(ground) * scale + center, (0.965, 0.97, 0.975), _LINE, 1)
    solid = cells != AIR
    visible_faces = faces(solid, wrong > 0, scene.view)
    for corners, cell, axis in zip(
        visible_faces.corners * scale + center, visible_faces.cell, visible_faces.axis, strict=True
    ):
        x, y, z = cell
        if solid[x, y, z]:
            color = shaded(code_colors[cells[x, y, z]], _LIGHT[int(axis)])
            canvas.polygon(corners, color, shaded(color, 0.72), 0.9)
        else:
            canvas.polygon(corners, alpha(scene.wanted[scene.target[x, y, z]], 0.35), alpha(WRONG, 0.55), 0.8)
        if wrong[x, y, z] and solid[x, y, z]:
            canvas.polygon(_inset(corners, 0.8), alpha(WRONG, 0.12), WRONG, 1.8)


def _inset(corners: NDArray[np.float64], share: float) -> NDArray[np.float64]:
    middle = corners.mean(axis=0)
    return np.asarray(middle + (corners - middle) * share)


# --- layer by layer ---------------------------------------------------------------------------------


def _layers(canvas: Canvas, scene: PictureContents, y: float) -> float:
    """Draw the built layers, seen from above, from the ground up; returns the lower end."""
    _heading(canvas, MARGIN, y, "layers", "what was built, from the ground up; a dot is what belongs there")
    return _plans(canvas, scene, y + HEAD, scene.built, scene.colors, scene.faults)


def _who(canvas: Canvas, scene: PictureContents, y: float) -> float:
    """The same cells in the colours of the agents that placed them; returns where it ends."""
    assert scene.owner is not None
    _heading(canvas, MARGIN, y, "who")
    x = _after(MARGIN, "who")
    for agent in range(1, scene.agents + 1):
        x = _key(canvas, x, y + 10, _agent(agent), f"agent {agent}")
    return _plans(canvas, scene, y + HEAD, scene.owner, [_AIR, *map(_agent, range(1, scene.agents + 1))])


def _agent(agent: int) -> RGB:
    return AGENTS[(agent - 1) % len(AGENTS)]


def _plans(
    canvas: Canvas,
    scene: PictureContents,
    y: float,
    cells: Cells,
    fills: list[RGB],
    wrong: NDArray[np.int16] | None = None,
) -> float:
    """Every layer as a grid, as many in a row as go; returns where they end."""
    layers = [grid for _, grid in slices(cells)]
    marks = [grid for _, grid in slices(np.zeros_like(scene.target) if wrong is None else wrong)]
    wanted = [grid for _, grid in slices(scene.target)]
    rows, columns = map(int, layers[0].shape)
    across = min(len(layers), 8)
    side = min(28.0 if scene.flat else 20.0, (canvas.width - 2 * MARGIN) / (across * (columns + 1) - 1))
    wide = (canvas.width - 2 * MARGIN + side) / across
    for index, layer in enumerate(layers):
        left, top = MARGIN + index % across * wide, y + index // across * (rows + 1) * side
        for row, column in np.ndindex(rows, columns):
            code = int(layer[row, column])
            x, z = left + column * side, top + row * side
            canvas.square(x, z, side, fills[code], shaded(fills[code], 0.75) if code else _LINE, 0.7)
            if marks[index][row, column]:
                _mark(canvas, x, z, side, scene.wanted[wanted[index][row, column]])
    return y + ((len(layers) - 1) // across + 1) * (rows + 1) * side


def _mark(canvas: Canvas, x: float, y: float, side: float, belongs: RGB) -> None:
    canvas.square(x + 1.5, y + 1.5, side - 3, alpha(WRONG, 0.0), WRONG, 1.7)
    dot = side * 0.36
    canvas.square(x + (side - dot) / 2, y + (side - dot) / 2, dot, belongs, shaded(belongs, 0.6), 0.7)


# --- the legend -------------------------------------------------------------------------------------


def _legend(canvas: Canvas, scene: PictureContents, y: float) -> float:
    """Blocks and marks with their names; returns where it ends."""
    x = float(MARGIN)
    keys = [(color, _plain(block)) for color, block in zip(scene.colors[1:], scene.palette, strict=True)]
    for color, name in keys:
        if x > MARGIN and x + text_width(name, TEXT) + 40 > canvas.width:
            x, y = float(MARGIN), y + LEGEND
        x = _key(canvas, x, y + 8, color, name)
    if x + 135 > canvas.width:
        x, y = float(MARGIN), y + LEGEND
    _mark(canvas, x, y, 16, _AIR)
    canvas.write(x + 23, y + 8, "wrong cell", TEXT, MUTED)
    return y + LEGEND


def _plain(name: str) -> str:
    """A name in letters that the font has."""
    return one_line(name, 24).encode("ascii", "replace").decode("ascii")


def _key(canvas: Canvas, x: float, middle: float, color: RGB, name: str) -> float:
    """A coloured square and its name; returns where the next may begin."""
    canvas.square(x, middle - 7, 14, color, shaded(color, 0.72), 0.9)
    canvas.write(x + 21, middle, name, TEXT, MUTED)
    return x + 21 + text_width(name, TEXT) + 16
