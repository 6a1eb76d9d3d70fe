"""A drawing area in pixels, y down.

Polygons and words are drawn in the order they are added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

RGBA = tuple[float, ...]  # red, green, blue and perhaps alpha, each 0 to 1
DPI = 100
FONT = "DejaVu Sans"  # comes with matplotlib

INK, MUTED, PAPER = "#1c1f26", "#646b78", "#ffffff"


@dataclass(frozen=True)
class Word:
    """A text at (x, y), the middle of its height."""

    x: float
    y: float
    text: str
    size: float
    color: str
    bold: bool
    align: Literal["left", "center", "right"]


@dataclass
class Canvas:
    """Shapes and texts to be drawn.

    Attributes:
        width: in pixels; `height` likewise, set by the caller that draws.
    """

    width: int = 760
    height: int = 0
    words: list[Word] = field(default_factory=list)
    _corners: list[NDArray[np.float64]] = field(default_factory=list)
    _fill: list[RGBA] = field(default_factory=list)
    _edge: list[RGBA] = field(default_factory=list)
    _line: list[float] = field(default_factory=list)

    def polygon(self, corners: NDArray[np.float64], fill: RGBA, edge: RGBA, line: float) -> None:
        """A polygon (n, 2) with an edge `line` pixels wide; later ones cover earlier ones."""
        self._corners.append(corners)
        self._fill.append(fill)
        self._edge.append(edge)
        self._line.append(line * 72 / DPI)

    def square(self, x: float, y: float, side: float, fill: RGBA, edge: RGBA, line: float) -> None:
        """A square by its upper left corner."""
        corners = np.array([(x, y), (x + side, y), (x + side, y + side), (x, y + side)])
        self.polygon(corners, fill, edge, line)

    def write(
        self,
        x: float,
        y: float,
        text: str,
        size: float = 14,
        color: str = INK,
        bold: bool = False,
        align: Literal["left", "center", "right"] = "left",
    ) -> None:
        """A text of `size` pixels."""
        self.words.append(Word(x, y, text, size, color, bold, align))

    def pixels(self) -> NDArray[np.uint8]:
        """Everything, on white. Shape (height, width, 3)."""
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.collections import PolyCollection
        from matplotlib.figure import Figure

        figure = Figure(figsize=(self.width / DPI, self.height / DPI), dpi=DPI, facecolor=PAPER)
        sheet = FigureCanvasAgg(figure)
        ax = figure.add_axes((0, 0, 1, 1), xlim=(0, self.width), ylim=(self.height, 0))
        ax.set_axis_off()
        ax.add_collection(
            PolyCollection(
                self._corners, facecolors=self._fill, edgecolors=self._edge, linewidths=self._line, joinstyle="round"
            ),
            autolim=False,
        )
        for word in self.words:
            ax.text(
                word.x,
                word.y,
                word.text,
                fontsize=word.size * 72 / DPI,
                color=word.color,
                family=FONT,
                weight="bold" if word.bold else "normal",
                ha=word.align,
                va="center",
                parse_math=False,
            )
        sheet.draw()
        return np.asarray(sheet.buffer_rgba())[:, :, :3].copy()


def text_width(text: str, size: float) -> float:
    """Approximate width of a text in pixels.

    The font's letters are 0.55 of its size wide on average.
    """
    return 0.55 * size * len(text)


def alpha(color: Sequence[float], opacity: float) -> RGBA:
    """A colour that lets what is behind it through."""
    return (*color[:3], opacity)
