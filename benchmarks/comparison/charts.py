"""Figure of a comparison: metrics by samples and by seconds, a row for each environment.

Each group has one line and one band.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from palaver.benchmarks.comparison.curves import AXES, Curve, Panel, band_note, panels
from palaver.benchmarks.comparison.groups import Comparison
from palaver.benchmarks.reports.charts import SMALL, Chart, label, save_figure, spread

GAP, WIDTH = 0.052, 0.16  # of the axes: between two names, and most that a name is wide
ROW_HEIGHT = 4.0  # inches of a row of charts, to which GAP belongs
NAME: dict[str, Any] = {"va": "center", "fontsize": 9, "fontweight": "bold", "annotation_clip": False, "zorder": 6}


def write_figure(comparison: Comparison, path: str, time: str = "wall_s") -> None:
    """Write the figure of the training reward; see `write_panels`."""
    write_panels(panels(comparison)[0], comparison.title, path, time)


def write_panels(drawn: Sequence[Panel], title: str, path: str, time: str = "wall_s") -> None:
    """Write panels as PNG or SVG, by the name; `time` is `wall_s` or `cpu_s`."""
    heights = [max(ROW_HEIGHT, 1.0 + 0.36 * len(panel.curves)) for panel in drawn]

    def draw(*charts: Chart) -> None:
        for row, panel in enumerate(drawn):
            left, right = charts[2 * row : 2 * row + 2]
            gap = GAP * ROW_HEIGHT / heights[row]
            draw_panel(left, panel, "samples", len({panel.env for panel in drawn}) > 1)
            draw_panel(right, panel, time)
            name_beside(left, panel.curves, "samples", gap)
            timed = [curve for curve in panel.curves if np.isfinite(curve.at[time]).any()]
            right.ax.set_xlim(right=max((_last(curve, time)[0] for curve in timed), default=1.0) / (1 - WIDTH))
            name_at_ends(right, timed, time, gap)
        whole: Any = charts[0].ax.figure
        whole.supxlabel(band_note(drawn), x=0.01, ha="left", fontsize=SMALL, color=charts[0].theme.muted)

    layout = [[2 * row, 2 * row + 1] for row in range(len(drawn))]
    size = (12.4, 0.9 + sum(heights))
    save_figure(Path(path), title, size, draw, layout=layout, width_ratios=(1, 1.12), height_ratios=heights)


def draw_panel(chart: Chart, panel: Panel, axis: str, named: bool = False) -> None:
    """Draw the lines and bands of a panel over an axis; `named` writes its environment above."""
    for curve in panel.curves:
        color = chart.color(curve.look.color)
        chart.line(curve.at[axis], curve.mean, color, width=1.9, dashes=curve.look.style, band=curve.band)
    chart.labels(AXES[axis], panel.label if axis == "samples" else "")
    chart.ax.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    chart.ax.set_xlim(left=0)
    chart.ax.set_ylim(*panel.range)
    if named:
        chart.ax.set_title(label(panel.env, 60), loc="left", fontsize=10.5, color=chart.theme.ink)


def name_beside(chart: Chart, curves: Sequence[Curve], axis: str, gap: float) -> None:
    """Label the lines to the right of the axes, at the heights of their ends, with hairlines."""
    ends = [_last(curve, axis) for curve in curves]
    low, high = chart.ax.get_ylim()
    heights = [(y - low) / (high - low) for _, y in ends]
    for curve, (x, y), height in zip(curves, ends, spread(heights, [[True] * len(ends)] * len(ends), gap), strict=True):
        color = chart.color(curve.look.color)
        hairline = {"arrowstyle": "-", "color": color, "linewidth": 0.7, "alpha": 0.7, "relpos": (0.0, 0.5)}
        arrow = hairline | {"shrinkA": 1, "shrinkB": 1}
        where: dict[str, Any] = {"textcoords": "axes fraction", "color": color, "arrowprops": arrow}
        chart.note(label(curve.name, 24), x, y, (1.03, height), **NAME, **where)


def name_at_ends(chart: Chart, curves: Sequence[Curve], axis: str, gap: float) -> None:
    """Label the lines at their ends, in the foreground, moved apart if two labels would overlap."""
    low, high = chart.ax.get_ylim()
    right = chart.ax.get_xlim()[1]
    ends = [_last(curve, axis) for curve in curves]
    at = [(x / right, (y - low) / (high - low)) for x, y in ends]
    near = [[abs(one - second) < 1.25 * WIDTH for second, _ in at] for one, _ in at]
    for curve, (x, y), height in zip(curves, ends, spread([height for _, height in at], near, gap), strict=True):
        color = chart.color(curve.look.color)
        chart.dots([x], [y], color, size=5.5)
        chart.note(label(curve.name, 24), x, low + height * (high - low), (5, 0), outlined=True, **NAME, color=color)


def _last(curve: Curve, axis: str) -> tuple[float, float]:
    """End of a line: its last point whose place on the axis is known."""
    last = int(np.flatnonzero(np.isfinite(curve.at[axis]))[-1])
    return float(curve.at[axis][last]), float(curve.mean[last])
