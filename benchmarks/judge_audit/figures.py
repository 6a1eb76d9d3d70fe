"""The pictures of an audit: each function draws one thing on one pair of axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palaver.benchmarks.judge_audit.run import Audit, ProbeResult
from palaver.benchmarks.reports.plot_style import Theme, dress, label, legend
from palaver.utils.stats.effects import wilson

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_reliability(ax: Axes, found: Audit, theme: Theme) -> None:
    """Draw accuracy against confidence by bin with Wilson's intervals; the dashed line is a calibrated judge."""
    ax.plot([0.5, 1], [0.5, 1], color=theme.muted, linewidth=1, linestyle=(0, (4, 4)))
    for each in found.bins:
        low, high = wilson(each.right * each.n, each.n)
        ends = np.maximum([[each.right - low], [high - each.right]], 0)
        ax.errorbar(
            each.confidence,
            each.right,
            yerr=ends,
            fmt="o",
            color=theme.color(0),
            markersize=6,
            elinewidth=2,
            capsize=4,
            clip_on=False,
        )
        ax.annotate(
            f"{each.n:,}",
            (each.confidence, each.right),
            xytext=(8, -10),
            textcoords="offset points",
            fontsize=8.5,
            color=theme.muted,
        )
    dress(ax, theme, "confidence, max(p, 1 - p)")
    ax.set_xticks([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    ax.set_ylabel("share right", color=theme.muted, fontsize=8.5)
    ax.set_xlim(0.47, 1.03)
    ax.set_ylim(-0.02, 1.03)


def draw_probes(ax: Axes, found: Audit, theme: Theme) -> None:
    """Draw the share of pairs won by each probe; next to an injection, that of filler of the same length."""
    rows = found.tried[::-1]
    ax.barh(
        range(len(rows)),
        [100 * each.won / each.n for each in rows],
        height=0.55,
        color=theme.color(4),
        label="probe wins",
    )
    controls = [(y, each) for y, each in enumerate(rows) if each.control_won is not None]
    if controls:
        ax.plot(
            [100 * (each.control_won or 0) / each.n for _, each in controls],
            [y for y, _ in controls],
            "|",
            color=theme.ink,
            markersize=9,
            markeredgewidth=2,
            label="as much filler wins",
        )
    dress(ax, theme, "percent of the pairs, over both orders")
    ax.grid(axis="y", visible=False)
    ax.grid(axis="x", color=theme.grid, linewidth=0.8)
    ax.set_yticks(range(len(rows)), [_name(each) for each in rows])
    ax.set_xticks([0, 25, 50, 75, 100])
    ax.set_xlim(0, 100)
    ax.set_ylim(-0.6, len(rows) - 0.4)
    legend(ax, theme)


def _name(each: ProbeResult) -> str:
    return label(f"{each.kind}: {each.name}", 48)
