"""Pictures of a target and of the built world.

They are in three dimensions and layer by layer, with wrong cells marked. `rgb_array` needs matplotlib, which
`palaver[train]` brings; it uses none of pyplot's state, may be called from any thread, and gives the same picture for
the same worlds.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaver.core import need
from palaver.envs.minecraft.letters import faults, slices, summary
from palaver.envs.minecraft.projection import CORNER, FRONT, RGB, colors, extent, faces, rgb, shaded
from palaver.envs.minecraft.world import AIR, Cells, Palette
from palaver.text import one_line

DPI = 100
FONT = "DejaVu Sans"  # comes with matplotlib
WIDTH, MARGIN, HEAD, LEGEND = 760, 18, 38, 30  # pixels: the picture, around it, above a panel, a line of the legend
TITLE, TEXT = 19.0, 16.0  # pixels: the size of words
LARGEST = 46.0  # pixels a cell's side may take
INK, MUTED = "#1c1f26", "#646b78"
WRONG = rgb("#e0192f")
AGENTS = tuple(rgb(code) for code in ("#2864dc", "#e07b1a", "#15916b", "#a13cb4", "#8a7a00", "#5f7087"))
_LIGHT = {0: 0.88, 1: 1.14, 2: 1.0}  # how a face across x, y, z is shaded
_AIR: RGB = (1.0, 1.0, 1.0)
_LINE: RGB = (0.86, 0.87, 0.89)
_GROUND: RGB = (0.965, 0.97, 0.975)
_ANY = rgb("#9aa3b2")  # a target block of any kind
_LOCK = threading.Lock()  # matplotlib's fonts are not made for several threads

Color = tuple[float, ...]  # red, green, blue and perhaps alpha, each 0 to 1
Points = NDArray[np.float64]


def rgb_array(
    target: Cells, built: Cells, palette: Palette, owner: Cells | None = None, shape_only: bool = False
) -> NDArray[np.uint8]:
    """A picture of the target and of the built world. Shape (height, width, 3).

    Wrong cells have a red frame: a ghost marks a missing block, and in the layers a dot shows what belongs
    there. The size depends on the shape of the world, on the palette, and on whether `owner` is given, alone.

    Args:
        target: codes, shape (x, y, z).
        built: likewise.
        palette: block names.
        owner: number of the agent that placed each cell, 0 for none; None leaves the agents out.
        shape_only: any block counts for any other.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    need("render_mode='rgb_array'", "train", "matplotlib")
    with _LOCK:
        return _Picture(target, built, palette, owner, shape_only).pixels()


class _Picture:
    """A picture in the making, in pixels from the upper left corner.

    Polygons are painted in the order they are added, and texts over them. Each part of the picture takes the height
    where it begins and returns the height where it ends.
    """

    def __init__(self, target: Cells, built: Cells, palette: Palette, owner: Cells | None, shape_only: bool) -> None:
        from matplotlib.figure import Figure

        self.target, self.built, self.owner, self.palette = target, built, owner, palette
        self.flat = target.shape[2] == 1  # one cell deep: a sign, seen from the front
        self.view = FRONT if self.flat else CORNER
        self.faults = faults(target, built, shape_only)
        self.summary = " · ".join(summary(target, built, shape_only))
        self.colors = [_AIR, *colors(palette)]  # by code
        self.wanted = [_AIR, *[_ANY] * len(palette)] if shape_only else self.colors
        self.polygons: list[tuple[Points, Color, Color, float]] = []
        self.figure = Figure(dpi=DPI, facecolor="white")
        self.ax: Any = self.figure.add_axes((0, 0, 1, 1), xlim=(0, WIDTH))
        self.ax.set_axis_off()

    def pixels(self) -> NDArray[np.uint8]:
        """The whole picture, on white. Shape (height, width, 3)."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.collections import PolyCollection

        y = self.worlds(MARGIN)
        if not self.flat:
            y = self.layers(y + 10)
        if self.owner is not None:
            y = self.who(self.owner, y + 10)
        height = round(self.legend(y + 10))
        corners, fills, edges, lines = zip(*self.polygons, strict=True)
        shapes = PolyCollection(
            corners, facecolors=fills, edgecolors=edges, linewidths=np.array(lines) * 72 / DPI, joinstyle="round"
        )
        self.ax.add_collection(shapes, autolim=False)
        self.ax.set_ylim(height, 0)
        self.figure.set_size_inches(WIDTH / DPI, height / DPI)
        sheet = FigureCanvasAgg(self.figure)
        sheet.draw()
        return np.asarray(sheet.buffer_rgba())[:, :, :3].copy()

    def write(self, x: float, y: float, text: str, size: float, color: str, weight: str = "normal") -> None:
        """A text of `size` pixels that begins at x; y is the middle of its height."""
        self.ax.text(
            x, y, text, fontsize=size * 72 / DPI, color=color, family=FONT, weight=weight, va="center", parse_math=False
        )

    def heading(self, x: float, y: float, title: str, note: str = "") -> float:
        """A title with a note behind it; returns where the note begins."""
        after = x + 1.3 * _text_width(title, TITLE) + 18  # its letters are bold
        self.write(x, y + 9, title, TITLE, INK, "bold")
        self.write(after, y + 10, note, TEXT, MUTED)
        return after

    def square(self, x: float, y: float, side: float, fill: Color, edge: Color, line: float) -> None:
        """A square by its upper left corner, with an edge `line` pixels wide."""
        corners = np.array([(x, y), (x + side, y), (x + side, y + side), (x, y + side)])
        self.polygons.append((corners, fill, edge, line))

    def mark(self, x: float, y: float, side: float, belongs: RGB) -> None:
        """The mark of a wrong cell, with a dot of the colour that belongs there."""
        self.square(x + 1.5, y + 1.5, side - 3, _alpha(WRONG, 0.0), WRONG, 1.7)
        dot = side * 0.36
        self.square(x + (side - dot) / 2, y + (side - dot) / 2, dot, belongs, shaded(belongs, 0.6), 0.7)

    def key(self, x: float, middle: float, color: RGB, name: str) -> float:
        """A coloured square and its name; returns where the next may begin."""
        self.square(x, middle - 7, 14, color, shaded(color, 0.72), 0.9)
        self.write(x + 21, middle, name, TEXT, MUTED)
        return x + 21 + _text_width(name, TEXT) + 16

    def worlds(self, y: float) -> float:
        """Target and built world in three dimensions; those of a sign one below the other."""
        across = 1 if self.flat else 2
        low, high = extent(self.target.shape, self.view)
        room = (WIDTH - MARGIN * (across + 1)) / across
        scale = min(LARGEST, room / float(high[0] - low[0]), 340 / float(high[1] - low[1]))
        tall = float(high[1] - low[1]) * scale
        head = HEAD if self.flat else HEAD + 10  # where panels are narrow, the note is below the title
        right = np.zeros_like(self.faults)
        panels = (
            ("target", "", self.target, self.wanted, right),
            ("built", self.summary, self.built, self.colors, self.faults),
        )
        for index, (title, note, cells, code_colors, wrong) in enumerate(panels):
            left = MARGIN + (index % across) * (room + MARGIN)
            top = y + (index // across) * (tall + head + 8)
            self.heading(left, top, title, note if self.flat else "")
            if not self.flat:
                size = min(TEXT, TEXT * room / max(1.0, _text_width(note, TEXT)))
                self.write(left, top + 33, note, size, MUTED)
            middle = left + room / 2 - float(high[0] + low[0]) / 2 * scale
            self.world(cells, code_colors, wrong, scale, np.array([middle, top + head - float(low[1]) * scale]))
        return y + (2 // across) * (tall + head + 8)

    def world(
        self, cells: Cells, code_colors: Sequence[RGB], wrong: NDArray[np.int16], scale: float, center: Points
    ) -> None:
        """One world: the ground, then every visible face; ghosts mark missing blocks."""
        wide, _, deep = cells.shape
        ground = np.array([(0, 0, 0), (wide, 0, 0), (wide, 0, deep), (0, 0, deep)], dtype=np.float64)
        self.polygons.append((self.view.project(ground) * scale + center, _GROUND, _LINE, 1))
        solid = cells != AIR
        visible = faces(solid, wrong > 0, self.view)
        for corners, cell, axis in zip(visible.corners * scale + center, visible.cell, visible.axis, strict=True):
            at = tuple(cell)
            if solid[at]:
                color = shaded(code_colors[cells[at]], _LIGHT[int(axis)])
                self.polygons.append((corners, color, shaded(color, 0.72), 0.9))
            else:
                ghost = _alpha(self.wanted[self.target[at]], 0.35)
                self.polygons.append((corners, ghost, _alpha(WRONG, 0.55), 0.8))
            if wrong[at] and solid[at]:
                middle = corners.mean(axis=0)
                self.polygons.append((middle + (corners - middle) * 0.8, _alpha(WRONG, 0.12), WRONG, 1.8))

    def layers(self, y: float) -> float:
        """The built layers, seen from above, from the ground up."""
        self.heading(MARGIN, y, "layers", "what was built, from the ground up; a dot is what belongs there")
        return self.plans(y + HEAD, self.built, self.colors, self.faults)

    def who(self, owner: Cells, y: float) -> float:
        """The same cells in the colours of the agents that placed them."""
        agents = range(max(1, int(owner.max())))
        fills = [AGENTS[agent % len(AGENTS)] for agent in agents]
        x = self.heading(MARGIN, y, "who")
        for agent in agents:
            x = self.key(x, y + 10, fills[agent], f"agent {agent + 1}")
        return self.plans(y + HEAD, owner, [_AIR, *fills], np.zeros_like(self.faults))

    def plans(self, y: float, cells: Cells, fills: Sequence[RGB], wrong: NDArray[np.int16]) -> float:
        """Every layer as a grid, as many in a row as go."""
        layers, marks, wanted = ([grid for _, grid in slices(values)] for values in (cells, wrong, self.target))
        rows, columns = map(int, layers[0].shape)
        across = min(len(layers), 8)
        side = min(28.0 if self.flat else 20.0, (WIDTH - 2 * MARGIN) / (across * (columns + 1) - 1))
        wide = (WIDTH - 2 * MARGIN + side) / across
        for index, layer in enumerate(layers):
            left, top = MARGIN + index % across * wide, y + index // across * (rows + 1) * side
            for row, column in np.ndindex(rows, columns):
                code = int(layer[row, column])
                x, z = left + column * side, top + row * side
                self.square(x, z, side, fills[code], shaded(fills[code], 0.75) if code else _LINE, 0.7)
                if marks[index][row, column]:
                    self.mark(x, z, side, self.wanted[wanted[index][row, column]])
        return y + ((len(layers) - 1) // across + 1) * (rows + 1) * side

    def legend(self, y: float) -> float:
        """Blocks and the mark with their names."""
        x = float(MARGIN)
        for color, block in zip(self.colors[1:], self.palette, strict=True):
            name = one_line(block, 24).encode("ascii", "replace").decode("ascii")  # in letters that the font has
            if x > MARGIN and x + _text_width(name, TEXT) + 40 > WIDTH:
                x, y = float(MARGIN), y + LEGEND
            x = self.key(x, y + 8, color, name)
        if x + 135 > WIDTH:
            x, y = float(MARGIN), y + LEGEND
        self.mark(x, y, 16, _AIR)
        self.write(x + 23, y + 8, "wrong cell", TEXT, MUTED)
        return y + LEGEND


def _text_width(text: str, size: float) -> float:
    """Approximate width of a text in pixels: letters are 0.55 of the size wide on average."""
    return 0.55 * size * len(text)


def _alpha(color: RGB, opacity: float) -> Color:
    """A colour that lets what is behind it through."""
    return (*color, opacity)
