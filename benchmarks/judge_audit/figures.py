"""The figures of an audit: each function draws one thing on one chart."""

from __future__ import annotations

import numpy as np

from palaver.benchmarks.judge_audit.run import Audit
from palaver.benchmarks.reports.charts import DASHED, Chart
from palaver.benchmarks.reports.plot_style import label
from palaver.utils.stats.effects import wilson


def draw_reliability(chart: Chart, audit: Audit) -> None:
    """Draw accuracy against confidence by bin with Wilson's intervals.

    The dashed line is a calibrated judge.
    """
    calibrated = np.linspace(0.5, 1, 3)
    chart.line(calibrated, calibrated, chart.theme.muted, width=1, dashes=DASHED)
    ends = [wilson(bucket.right * bucket.n, bucket.n) for bucket in audit.bins]
    confidences, shares = [bucket.confidence for bucket in audit.bins], [bucket.right for bucket in audit.bins]
    chart.dots(confidences, shares, chart.color(0), ends=ends)
    for bucket in audit.bins:
        chart.note(f"{bucket.n:,}", bucket.confidence, bucket.right, (8, -10))
    chart.labels("confidence, max(p, 1 - p)", "share right")
    chart.ax.set_xticks([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    chart.ax.set_xlim(0.47, 1.03)
    chart.ax.set_ylim(-0.02, 1.03)


def draw_probes(chart: Chart, audit: Audit) -> None:
    """Draw the share of pairs won by each probe, and for injections that of equally long filler."""
    names = [label(f"{result.kind}: {result.name}", 48) for result in audit.tried]
    chart.bars(names, [100 * result.won / result.n for result in audit.tried], chart.color(4), "probe wins")
    controls = [
        (100 * result.control_won / result.n, y)
        for y, result in enumerate(audit.tried)
        if result.control_won is not None
    ]
    if controls:
        shares, heights = zip(*controls, strict=True)
        chart.dots(shares, heights, chart.theme.ink, "as much filler wins", marker="|", size=9)
    chart.labels("percent of the pairs, over both orders")
    chart.ax.set_xticks([0, 25, 50, 75, 100])
    chart.ax.set_xlim(0, 100)
