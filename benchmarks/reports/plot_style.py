"""Style of figures: colours for print, and placeholders that become CSS variables in a page."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from palaver.text import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Theme:
    """Colours of a figure, as matplotlib reads them."""

    ink: str
    muted: str
    grid: str
    series: tuple[str, ...]

    def color(self, index: int) -> str:
        """Return the colour of line `index`, cyclically."""
        return self.series[index % len(self.series)]


PAPER = Theme(
    ink="#1c1f26",
    muted="#646b78",
    grid="#e3e6eb",
    series=("#2864dc", "#d9690d", "#15916b", "#a13cb4", "#c4304f", "#5f7087", "#8a7a00"),
)

# Never seen: `svg` puts `var(--name)` in their place, so that one drawing serves a light and a dark page.
PAGE = Theme(
    ink="#010101",
    muted="#010102",
    grid="#010103",
    series=tuple(f"#0102{index:02x}" for index in range(1, len(PAPER.series) + 1)),
)
_VARIABLES = {PAGE.ink: "--ink", PAGE.muted: "--muted", PAGE.grid: "--line"} | {
    color: f"--s{index}" for index, color in enumerate(PAGE.series, start=1)
}


def figure(width: float, height: float) -> Figure:
    """Make an empty figure of `width` x `height` inches that fits its contents."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def entitle(drawing: Figure, text: str) -> None:
    """Draw the title of a standalone figure."""
    drawing.suptitle(text, x=0.01, ha="left", fontsize=12.5, color=PAPER.ink, fontweight="bold")


def label(text: object, max_characters: int = 40) -> str:
    """Return a name for a legend or a title, on one line.

    It is cut at `max_characters`, with `$` and a first `_` escaped.
    """
    return one_line(text, max_characters).replace("$", r"\$").lstrip("_")


def dress(ax: Axes, theme: Theme, x_label: str = "step") -> None:
    """Style axes: horizontal hairlines, no box, muted ticks, whole steps."""
    from matplotlib.ticker import MaxNLocator

    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.spines["bottom"].set_color(theme.muted)
    ax.grid(axis="y", color=theme.grid, linewidth=0.8)
    ax.set_axisbelow(True)
    ax.tick_params(axis="both", colors=theme.muted, labelsize=8.5, length=0, pad=4)
    ax.tick_params(axis="x", length=3)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=8))
    ax.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xlabel(x_label, color=theme.muted, fontsize=8.5)
    ax.margins(x=0.02)


def legend(ax: Axes, theme: Theme) -> None:
    """Draw a frameless legend above the axes with as many columns as fit the width."""
    names = ax.get_legend_handles_labels()[1]
    if names:
        characters = ax.figure.get_size_inches()[0] * ax.get_position().width * 17
        columns = max(1, min(len(names), int(characters / (max(map(len, names)) + 6))))
        ax.legend(
            loc="lower left",
            bbox_to_anchor=(-0.02, 1.0),
            ncols=columns,
            frameon=False,
            fontsize=8.5,
            labelcolor=theme.ink,
            handlelength=1.4,
            columnspacing=1.4,
            borderaxespad=0.2,
        )


def svg(drawing: Figure, salt: str, description: str) -> str:
    """Return the figure as an `<svg>` element.

    Text stays text, colours are CSS variables, and ids contain `salt`.
    """
    import matplotlib

    buffer = io.StringIO()
    options: dict[str, Any] = {"svg.fonttype": "none", "svg.hashsalt": salt, "svg.id": salt}
    with matplotlib.rc_context(options):
        drawing.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    for color, variable in _VARIABLES.items():
        text = text.replace(color, f"var({variable})")
    # Groups are numbered from 1 in every drawing; nothing refers to them, and a page holds many drawings.
    text = re.sub(r'<g id="[^"]*"', "<g", text)
    text = re.sub(r' (?:width|height)="[\d.]+pt"', "", text, count=2)
    return text.replace("<svg", f'<svg role="img" aria-label="{description}" class="chart"', 1)


def save_png(drawing: Figure, path: str) -> None:
    """Write the figure as PNG at 160 dpi."""
    drawing.savefig(path, format="png", dpi=160, facecolor="white")
