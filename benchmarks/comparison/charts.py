"""Figure of a comparison: training reward by samples and by seconds.

Each group has one line and one band.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from palaver.benchmarks.comparison.groups import Comparison, RewardCurve
from palaver.benchmarks.reports.charts import Chart, Numbers, Theme, label, save_png

COLORS = 6  # of the theme, which every kind of colour vision tells apart; lines after that are dashed as well
DASHES: tuple[tuple[float, ...], ...] = ((), (4.5, 1.3), (1.2, 1.2), (6, 1.3, 1.2, 1.3))
GAP, WIDTH = 0.052, 0.16  # of the axes: between two names, and most that a name is wide
NAME: dict[str, Any] = {"va": "center", "fontsize": 9, "fontweight": "bold", "annotation_clip": False, "zorder": 6}
TIMES = {"wall_s": "wall seconds", "cpu_s": "CPU seconds"}
Line = tuple[Numbers, RewardCurve]


def write_png(comparison: Comparison, path: str, time: str = "wall_s") -> None:
    """Write both panels as PNG; `time` is `wall_s` or `cpu_s`."""
    curves = [group.curve(comparison.window, comparison.shares) for group in comparison.groups]
    names = [label(group.name, 24) for group in comparison.groups]

    def draw(left: Chart, right: Chart) -> None:
        by_samples = [(curve.samples, curve) for curve in curves]
        draw_lines(left, by_samples, "samples (completions to learn from)", _what(comparison))
        by_time = [(getattr(curve, time), curve) for curve in curves]
        draw_lines(right, by_time, TIMES[time])
        right.ax.set_xlim(right=max(x[-1] for x, _ in by_time) / (1 - WIDTH))
        right.ax.tick_params(labelleft=True)
        name_beside(left, by_samples, names)
        name_at_ends(right, by_time, names)

    size = (12.4, max(4.8, 2.0 + 0.36 * len(comparison.groups)))
    save_png(path, comparison.title, size, draw, layout=[[0, 1]], sharey=True, width_ratios=(1, 1.12))


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


def look(index: int, theme: Theme) -> tuple[str, Any]:
    """Colour and dashes of line `index`."""
    dash = DASHES[index // COLORS % len(DASHES)]
    return theme.color(index % COLORS), (0, dash) if dash else "-"


def draw_lines(chart: Chart, lines: Sequence[Line], x_label: str, y_label: str = "") -> None:
    """Draw lines with their bands."""
    for index, (x, curve) in enumerate(lines):
        color, dashes = look(index, chart.theme)
        chart.line(x, curve.mean, color, width=1.9, dashes=dashes, band=(curve.low, curve.high))
    chart.labels(x_label, y_label)
    chart.ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    chart.ax.set_xlim(left=0)


def name_beside(chart: Chart, lines: Sequence[Line], names: Sequence[str]) -> None:
    """Label the lines to the right of the axes, at the heights of their ends, with hairlines."""
    low, high = chart.ax.get_ylim()
    heights = [(float(curve.mean[-1]) - low) / (high - low) for _, curve in lines]
    for index, height in enumerate(spread(heights, [[True] * len(lines)] * len(lines), GAP)):
        x, curve = lines[index]
        color = look(index, chart.theme)[0]
        hairline = {"arrowstyle": "-", "color": color, "linewidth": 0.7, "alpha": 0.7, "relpos": (0.0, 0.5)}
        chart.note(
            names[index],
            float(x[-1]),
            float(curve.mean[-1]),
            (1.03, height),
            **NAME,
            textcoords="axes fraction",
            color=color,
            arrowprops=hairline | {"shrinkA": 1, "shrinkB": 1},
        )


def name_at_ends(chart: Chart, lines: Sequence[Line], names: Sequence[str]) -> None:
    """Label the lines at their ends, in the foreground, moved apart if two labels would overlap."""
    low, high = chart.ax.get_ylim()
    right = chart.ax.get_xlim()[1]
    at = [(float(x[-1]) / right, (float(curve.mean[-1]) - low) / (high - low)) for x, curve in lines]
    near = [[abs(one - second) < WIDTH for second, _ in at] for one, _ in at]
    for index, height in enumerate(spread([height for _, height in at], near, GAP)):
        x, curve = lines[index]
        color = look(index, chart.theme)[0]
        chart.dots(x[-1:], curve.mean[-1:], color, size=5.5)
        chart.note(names[index], x[-1], low + height * (high - low), (5, 0), outlined=True, **NAME, color=color)


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
