"""The drawing layer of all figures: charts with a few primitives, as PNG or as SVG.

def draw(chart: Chart) -> None:                              # data in, no matplotlib
    chart.line(steps, means, chart.color(0), "mean", band=(low, high))
    chart.labels("step", "reward")

save_figure(folder / "curve.png", "Reward", (8, 3.2), draw)  # with the title, atomically
Drawing("Reward", "How to read it.", (8, 3.2), draw).svg("curve")
"""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from palaver.benchmarks.reports.palette import PAGE, PAPER, VARIABLES, Theme
from palaver.text import one_line
from palaver.utils.run_folder import replace_bytes

if TYPE_CHECKING:
    from markupsafe import Markup
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Numbers = Sequence[float] | NDArray[np.float64]
DASHED = (0, (4, 4))
SMALL = 8.5  # points, the size of all text but titles
PALE = "#f3f5f9"  # of a cell with shade 0
DARK = 0.6  # from this shade on, letters are white


@dataclass(frozen=True)
class Cell:
    """A cell of a heat-map.

    Attributes:
        text: a number.
        beneath: small text below it.
        shade: from -1 (orange) over 0 (pale) to 1 (blue); None leaves the cell blank.
        hatched: mark the cell as one without a value.
    """

    text: str = ""
    beneath: str = ""
    shade: float | None = None
    hatched: bool = False


class Chart:
    """One pair of axes, drawn on in the colours of a theme.

    A legend appears where names were given, with `heading` as its title.
    """

    heading = ""

    def __init__(self, ax: Axes, theme: Theme) -> None:
        from matplotlib.ticker import MaxNLocator

        self.ax, self.theme, self.color = ax, theme, theme.color
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)
        ax.spines["bottom"].set_color(theme.muted)
        ax.grid(axis="y", color=theme.grid, linewidth=0.8)
        ax.set_axisbelow(True)
        ax.tick_params(axis="both", colors=theme.muted, labelsize=SMALL, length=0, pad=4)
        ax.tick_params(axis="x", length=3)
        ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
        ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        ax.margins(x=0.02)

    def labels(self, x: str = "", y: str = "") -> None:
        """Name the axes."""
        self.ax.set_xlabel(x, color=self.theme.muted, fontsize=SMALL)
        self.ax.set_ylabel(y, color=self.theme.muted, fontsize=SMALL)

    def line(
        self,
        x: Numbers,
        y: Numbers,
        color: str,
        name: str = "",
        *,
        width: float = 1.8,
        dashes: Any = "-",
        alpha: float = 1.0,
        band: tuple[Numbers, Numbers] | None = None,
    ) -> None:
        """Draw a line, with dots if it has fewer than three points, and a band from low to high."""
        if band is not None:
            self.ax.fill_between(x, *band, color=color, alpha=0.13, linewidth=0)
        marker = "o" if len(x) < 3 else ""
        self.ax.plot(
            x, y, color=color, linewidth=width, linestyle=dashes, alpha=alpha, marker=marker, markersize=5, label=name
        )

    def dots(
        self,
        x: Numbers,
        y: Numbers,
        color: str,
        name: str = "",
        *,
        ends: Sequence[tuple[float | None, float | None]] | None = None,
        across: bool = False,
        marker: str = "o",
        size: float = 6.0,
        alpha: float = 1.0,
    ) -> None:
        """Draw dots, with intervals if `ends` are given (None for an unknown end).

        Args:
            x: of the dots.
            y: of the dots.
            color: of all.
            name: in the legend.
            ends: low and high end of each interval, of `y`, or of `x` where they lie `across`.
            across: draw horizontal intervals.
            marker: of matplotlib, with the style of a line that joins the dots, as `o:`.
            size: of a dot, in points.
            alpha: opacity.
        """
        look: dict[str, Any] = {"color": color, "markersize": size, "alpha": alpha, "label": name}
        if ends is None:
            self.ax.plot(x, y, marker, markeredgewidth=2 if marker == "|" else 0, clip_on=size < 4, **look)
            return
        lengths = [
            (0.0 if low is None else middle - low, 0.0 if high is None else high - middle)
            for middle, (low, high) in zip(x if across else y, ends, strict=True)
        ]
        errors = np.maximum(np.reshape(lengths, (-1, 2)).T, 0)  # matplotlib refuses negative lengths
        look |= {"xerr" if across else "yerr": errors, "linewidth": 1.2, "elinewidth": 2, "capsize": 4}
        self.ax.errorbar(x, y, fmt=marker, zorder=5, clip_on=False, **look)

    def areas(self, x: Numbers, parts: Sequence[Numbers], names: Sequence[str]) -> None:
        """Draw areas on top of each other, one for each name."""
        self.ax.stackplot(x, *parts, labels=names, colors=[self.color(i) for i in range(len(parts))], alpha=0.75)

    def bars(self, names: Sequence[str], lengths: Numbers, colors: str | Sequence[str], name: str = "") -> None:
        """Draw horizontal bars, the first on top."""
        self.ax.barh(range(len(names)), lengths, height=0.55, color=colors, label=name)
        self.rows(names)

    def rows(self, names: Sequence[str]) -> None:
        """Name horizontal rows at heights 0, 1, ..., the first on top."""
        self.ax.grid(axis="y", visible=False)
        self.ax.grid(axis="x", color=self.theme.grid, linewidth=0.8)
        self.ax.set_yticks(range(len(names)), names, color=self.theme.ink)
        self.ax.set_ylim(len(names) - 0.5, -0.5)

    def rule(self, y: float, dashes: Any = DASHED) -> None:
        """Draw a horizontal line through the whole chart."""
        self.ax.axhline(y, color=self.theme.muted, linewidth=1, linestyle=dashes, zorder=1)

    def note(
        self, text: str, x: float | None, y: float, shift: tuple[float, float], outlined: bool = False, **look: Any
    ) -> None:
        """Write at a point, moved by `shift` in points; x None is the right border."""
        from matplotlib.patheffects import withStroke

        defaults = {"fontsize": SMALL, "color": self.theme.muted, "textcoords": "offset points"}
        if x is None:
            defaults["xycoords"] = ("axes fraction", "data")
        effects = [withStroke(linewidth=3, foreground="white")] if outlined else []
        self.ax.annotate(text, (1.0 if x is None else x, y), xytext=shift, path_effects=effects, **defaults | look)

    def heatmap(
        self,
        rows: Sequence[str],
        columns: Sequence[str],
        cells: Sequence[Sequence[Cell]],
        caption: str,
        turned: bool = False,
    ) -> None:
        """Draw a table of shaded cells with its caption below; the names of columns may be turned."""
        for y, line in enumerate(cells):
            for x, cell in enumerate(line):
                self._cell(x, y, cell)
        turn: dict[str, Any] = {"rotation": 35, "ha": "left", "rotation_mode": "anchor"} if turned else {}
        self.ax.grid(False)
        self.ax.set_xlim(-0.5, len(columns) - 0.5)
        self.ax.set_ylim(len(rows) - 0.45, -0.5)
        self.ax.set_xticks(range(len(columns)), columns, **turn)
        self.ax.set_yticks(range(len(rows)), rows)
        self.ax.xaxis.tick_top()
        self.ax.tick_params(axis="both", length=0, labelsize=9, colors=self.theme.ink)
        self.ax.spines["bottom"].set_visible(False)
        characters = int(19 * self.ax.figure.get_size_inches()[0] * self.ax.get_position().width)
        self.ax.set_xlabel(textwrap.fill(caption, characters), fontsize=SMALL, color=self.theme.muted, labelpad=8)

    def _cell(self, x: int, y: int, cell: Cell) -> None:
        from matplotlib.patches import Rectangle

        shade = cell.shade or 0.0
        box: dict[str, Any] = {"facecolor": _blend(shade), "edgecolor": "white", "linewidth": 1.5}
        if cell.hatched:
            box |= {"facecolor": "white", "edgecolor": self.theme.grid, "hatch": "////"}
        if cell.hatched or cell.shade is not None:
            self.ax.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, **box))
        light = self.theme.muted if cell.shade is None else self.theme.ink
        center: dict[str, Any] = {"ha": "center", "va": "center", "color": "white" if abs(shade) >= DARK else light}
        self.ax.text(x, y - (0.13 if cell.beneath else 0), cell.text, fontsize=10, **center)
        self.ax.text(x, y + 0.25, cell.beneath, fontsize=5 if "\n" in cell.beneath else 6.5, **center)

    def legend(self) -> None:
        """Draw a frameless legend above the axes with as many columns as fit the width."""
        names = self.ax.get_legend_handles_labels()[1]
        if names:
            characters = self.ax.figure.get_size_inches()[0] * self.ax.get_position().width * 17
            columns = max(1, min(len(names), int(characters / (max(map(len, names)) + 6))))
            self.ax.legend(
                title=self.heading,
                title_fontproperties={"size": SMALL},
                alignment="left",
                loc="lower left",
                bbox_to_anchor=(-0.02, 1.0),
                ncols=columns,
                frameon=False,
                fontsize=SMALL,
                labelcolor=self.theme.ink,
                handlelength=1.4,
                columnspacing=1.4,
                borderaxespad=0.2,
            )


def _blend(shade: float) -> tuple[float, ...]:
    """Colour of a shade: from pale to the first colour, or below 0 to the second."""
    from matplotlib.colors import to_rgb

    full = PAPER.color(0 if shade > 0 else 1)
    return tuple(pale + abs(shade) * (end - pale) for pale, end in zip(to_rgb(PALE), to_rgb(full), strict=True))


Size = tuple[float, float]  # width and height in inches
Draw = Callable[..., None]  # gets a chart for each of the axes


def figure(
    theme: Theme, size: Size, draw: Draw, layout: Sequence[Sequence[int | None]] = ((0,),), **grid: Any
) -> Figure:
    """Make a figure and draw its charts.

    Args:
        theme: the colours.
        size: width and height in inches.
        draw: gets a chart for each number in `layout`.
        layout: rows of numbers of the charts; a chart may cover several places, None is empty.
        grid: options of matplotlib's `subplot_mosaic`, as `sharex` and `width_ratios`.
    """
    from matplotlib.figure import Figure

    drawing = Figure(figsize=size, layout="constrained")
    axes = drawing.subplot_mosaic([list(row) for row in layout], empty_sentinel=None, **grid)
    charts = [Chart(ax, theme) for _, ax in sorted(axes.items())]
    draw(*charts)
    for chart in charts:
        chart.legend()
    return drawing


def save_figure(path: Path | str, title: str, size: Size, draw: Draw, **options: Any) -> None:
    """Write a figure with its title as PNG, or as SVG where the name ends so, atomically.

    Raises:
        OSError: it cannot be written.
    """
    drawing = figure(PAPER, size, draw, **options)
    if title:
        drawing.suptitle(
            label(title, int(9 * size[0])), x=0.01, ha="left", fontsize=12.5, color=PAPER.ink, fontweight="bold"
        )
    replace_bytes(Path(path), svg(drawing) if Path(path).suffix.lower() == ".svg" else png(drawing))


def png(drawing: Figure) -> bytes:
    """Return the figure as PNG at 160 dpi."""
    buffer = io.BytesIO()
    drawing.savefig(buffer, format="png", dpi=160, facecolor="white")
    return buffer.getvalue()


def svg(drawing: Figure) -> bytes:
    """Return the figure as an SVG that is the same everywhere: letters are outlines."""
    import matplotlib

    buffer = io.BytesIO()
    with matplotlib.rc_context({"svg.fonttype": "path", "svg.hashsalt": "palaver"}):
        drawing.savefig(buffer, format="svg", facecolor="white", metadata={"Date": None, "Creator": None})
    return buffer.getvalue()


@dataclass(frozen=True)
class Drawing:
    """A figure of a page.

    Attributes:
        title: heading.
        note: one line on how to read it.
        size: width and height in inches.
        draw: draws it on a chart.
    """

    title: str
    note: str
    size: Size
    draw: Draw

    def svg(self, salt: str) -> Markup:
        """Return the figure as an `<svg>` element.

        Text stays text, colours are CSS variables, and ids contain `salt`.
        """
        import matplotlib
        from markupsafe import Markup, escape

        buffer = io.StringIO()
        options: dict[str, Any] = {"svg.fonttype": "none", "svg.hashsalt": salt, "svg.id": salt}
        with matplotlib.rc_context(options):
            figure(PAGE, self.size, self.draw).savefig(
                buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None}
            )
        text = buffer.getvalue()
        text = text[text.index("<svg") :]
        for color, variable in VARIABLES.items():
            text = text.replace(color, f"var({variable})")
        # Groups are numbered from 1 in every drawing; nothing refers to them, and a page holds many drawings.
        text = re.sub(r'<g id="[^"]*"', "<g", text)
        text = re.sub(r' (?:width|height)="[\d.]+pt"', "", text, count=2)
        return Markup(text.replace("<svg", f'<svg role="img" aria-label="{escape(self.title)}" class="chart"', 1))


def smoothed(values: Numbers) -> NDArray[np.float64]:
    """Moving mean over a tenth of the values."""
    return moving_mean(values, window_of(len(values)))


def moving_mean(values: Numbers, window: int) -> NDArray[np.float64]:
    """Mean of the last `window` values, of fewer at the start. Shape (len(values),).

    >>> moving_mean([2.0, 4.0, 9.0], 2).tolist()
    [2.0, 3.0, 6.5]
    """
    array = np.asarray(values, dtype=np.float64)
    total = np.concatenate([[0.0], np.cumsum(array)])
    end = np.arange(1, len(total))
    start = np.maximum(end - window, 0)
    mean = (total[end] - total[start]) / (end - start)
    return np.asarray(np.clip(mean, array.min(), array.max()) if len(array) else mean, dtype=np.float64)


def window_of(length: int) -> int:
    """A tenth of the run, between 1 and 20 steps."""
    return min(20, max(1, length // 10))


def spread(heights: Sequence[float], near: Sequence[Sequence[bool]], gap: float) -> list[float]:
    """Move heights within 0 to 1, in order, until close neighbours are `gap` apart.

    >>> [round(height, 2) for height in spread([0.5, 0.5, 0.9], [[True] * 3] * 3, 0.1)]
    [0.45, 0.55, 0.9]
    """
    placed = [height + 1e-6 * index for index, height in enumerate(heights)]
    order = sorted(range(len(placed)), key=lambda index: placed[index])
    for _ in range(500):
        moved = False
        for rank, lower in enumerate(order):
            for upper in order[rank + 1 :]:
                lack = gap - (placed[upper] - placed[lower])
                if near[lower][upper] and lack > 1e-9:
                    placed[lower], placed[upper] = placed[lower] - lack / 2, placed[upper] + lack / 2
                    moved = True
        if not moved:
            break
        placed = [min(max(height, gap / 2), 1 - gap / 2) for height in placed]
    return placed


def label(text: object, max_characters: int = 40) -> str:
    """Return a name for a legend or a title, on one line.

    It is cut at `max_characters`, with `$` and a first `_` escaped.

    >>> label("a long name", 7)
    'a long…'
    """
    name = one_line(text, 1000)
    name = name if len(name) <= max_characters else f"{name[: max_characters - 1].rstrip()}…"
    return name.replace("$", r"\$").lstrip("_")
