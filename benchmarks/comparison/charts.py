"""Figure of a comparison: training reward by samples and by seconds.

Each group has one line and one band.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from palaver.benchmarks.comparison.groups import Comparison, RewardCurve
from palaver.benchmarks.reports.plot_style import PAPER, Theme, dress, entitle, figure, label, save_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLORS = 6  # of the theme, which every kind of colour vision tells apart; lines after that are dashed as well
DASHES: tuple[tuple[float, ...], ...] = ((), (4.5, 1.3), (1.2, 1.2), (6, 1.3, 1.2, 1.3))
GAP, WIDTH = 0.052, 0.16  # of the axes: between two names, and most that a name is wide
TIMES = {"wall_s": "wall seconds", "cpu_s": "CPU seconds"}
Line = tuple[NDArray[np.float64], RewardCurve]


def write_png(comparison: Comparison, path: str, time: str = "wall_s") -> None:
    """Write both panels as PNG; `time` is `wall_s` or `cpu_s`."""
    drawing = figure(12.4, max(4.8, 2.0 + 0.36 * len(comparison.groups)))
    entitle(drawing, label(comparison.title, 100))
    left, right = drawing.subplots(1, 2, sharey=True, width_ratios=(1, 1.12))
    curves = [group.curve(comparison.window, comparison.shares) for group in comparison.groups]
    names = [label(group.name, 24) for group in comparison.groups]
    lines = draw(left, [(curve.samples, curve) for curve in curves], PAPER, "samples (completions to learn from)")
    name_beside(left, lines, names, PAPER)
    lines = draw(right, [(getattr(curve, time), curve) for curve in curves], PAPER, TIMES[time])
    right.set_xlim(right=max(x[-1] for x, _ in lines) / (1 - WIDTH))
    name_at_ends(right, lines, names, PAPER)
    right.tick_params(labelleft=True)
    left.set_ylabel(_what(comparison), color=PAPER.muted, fontsize=8.5)
    save_png(drawing, path)


def _what(comparison: Comparison) -> str:
    max_return = comparison.groups[0].max_return
    scale = (
        "as a share of the most possible"
        if comparison.shares
        else f"of {max_return:g}"
        if max_return is not None
        else ""
    )
    smooth = f", mean of {comparison.window} updates" if comparison.window > 1 else ""
    several = any(len(group.trials) > 1 for group in comparison.groups)
    return f"training reward {scale}{smooth}" + (
        "\nline: mean of the seeds; band: lowest to highest" if several else ""
    )


def look(index: int, theme: Theme) -> dict[str, Any]:
    """Colour and dashes of line `index`."""
    dash = DASHES[index // COLORS % len(DASHES)]
    return {"color": theme.color(index % COLORS), "linestyle": (0, dash) if dash else "-"}


def draw(ax: Axes, lines: Sequence[Line], theme: Theme, x_label: str) -> Sequence[Line]:
    """Draw lines with their bands; returns the lines."""
    for index, (x, curve) in enumerate(lines):
        ax.fill_between(x, curve.low, curve.high, color=look(index, theme)["color"], alpha=0.13, linewidth=0)
    for index, (x, curve) in enumerate(lines):
        ax.plot(x, curve.mean, linewidth=1.9, marker="o" if len(x) < 3 else "", **look(index, theme))
    dress(ax, theme, x_label)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    ax.set_xlim(left=0)
    return lines


def name_beside(ax: Axes, lines: Sequence[Line], names: Sequence[str], theme: Theme) -> None:
    """Label the lines to the right of the axes, at the heights of their ends, with hairlines."""
    low, high = ax.get_ylim()
    heights = [(float(curve.mean[-1]) - low) / (high - low) for _, curve in lines]
    for index, height in enumerate(spread(heights, [[True] * len(lines)] * len(lines), GAP)):
        x, curve = lines[index]
        color = look(index, theme)["color"]
        ax.annotate(
            names[index],
            (float(x[-1]), float(curve.mean[-1])),
            xytext=(1.03, height),
            textcoords="axes fraction",
            va="center",
            fontsize=9,
            color=color,
            fontweight="bold",
            annotation_clip=False,
            arrowprops={
                "arrowstyle": "-",
                "color": color,
                "linewidth": 0.7,
                "alpha": 0.7,
                "shrinkA": 1,
                "shrinkB": 1,
                "relpos": (0.0, 0.5),
            },
        )


def name_at_ends(ax: Axes, lines: Sequence[Line], names: Sequence[str], theme: Theme) -> None:
    """Label the lines at their ends, in the foreground, moved apart if two labels would overlap."""
    from matplotlib.patheffects import withStroke

    low, high = ax.get_ylim()
    right = ax.get_xlim()[1]
    at = [(float(x[-1]) / right, (float(curve.mean[-1]) - low) / (high - low)) for x, curve in lines]
    near = [[abs(one - second) < WIDTH for second, _ in at] for one, _ in at]
    for index, height in enumerate(spread([height for _, height in at], near, GAP)):
        color = look(index, theme)["color"]
        ax.plot(*at[index], "o", color=color, markersize=4.5, transform=ax.transAxes, zorder=5, clip_on=False)
        ax.text(
            at[index][0] + 0.012,
            height,
            names[index],
            transform=ax.transAxes,
            va="center",
            fontsize=9,
            color=color,
            fontweight="bold",
            zorder=6,
            path_effects=[withStroke(linewidth=3, foreground="white")],
        )


def spread(heights: Sequence[float], near: Sequence[Sequence[bool]], gap: float) -> list[float]:
    """Move heights step by step, in order, until close neighbours are `gap` apart.

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
    return placed
