"""The pictures of an audit: each function draws one thing on one pair of axes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from palaver.benchmarks.judge_audit.run import Audit, ProbeResult
from palaver.benchmarks.reports.plot_style import Theme, dress, label, legend
from palaver.utils.stats.effects import wilson

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def draw_reliability(ax: Axes, audit: Audit, theme: Theme) -> None:
    """Draw accuracy against confidence by bin with Wilson's intervals.

    The dashed line is a calibrated judge.
    """
    ax.plot([0.5, 1], [0.5, 1], color=theme.muted, linewidth=1, linestyle=(0, (4, 4)))
    for bucket in audit.bins:
        low, high = wilson(bucket.right * bucket.n, bucket.n)
        ends = np.maximum([[bucket.right - low], [high - bucket.right]], 0)
        ax.errorbar(
            bucket.confidence,
            bucket.right,
            yerr=ends,
            fmt="o",
            color=theme.color(0),
            markersize=6,
            elinewidth=2,
            capsize=4,
            clip_on=False,
        )
        ax.annotate(
            f"{bucket.n:,}",
            (bucket.confidence, bucket.right),
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


def draw_probes(ax: Axes, audit: Audit, theme: Theme) -> None:
    """Draw the share of pairs won by each probe, and for injections that of equally long filler."""
    rows = audit.tried[::-1]
    ax.barh(
        range(len(rows)),
        [100 * result.won / result.n for result in rows],
        height=0.55,
        color=theme.color(4),
        label="probe wins",
    )
    controls = [(y, result) for y, result in enumerate(rows) if result.control_won is not None]
    if controls:
        ax.plot(
            [100 * (result.control_won or 0) / result.n for _, result in controls],
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
    ax.set_yticks(range(len(rows)), [_name(result) for result in rows])
    ax.set_xticks([0, 25, 50, 75, 100])
    ax.set_xlim(0, 100)
    ax.set_ylim(-0.6, len(rows) - 0.4)
    legend(ax, theme)


def _name(result: ProbeResult) -> str:
    return label(f"{result.kind}: {result.name}", 48)
