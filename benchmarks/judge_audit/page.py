"""The report of an audit: one static page, its pictures, its numbers."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import numpy as np

from palaver.benchmarks.judge_audit.run import JSON, Audit
from palaver.benchmarks.judge_audit.table import formatted as formatted  # the command line prints it, too
from palaver.benchmarks.reports import html as pages
from palaver.benchmarks.reports.charts import DASHED, Chart, Drawing, label, save_figure
from palaver.text import clean, one_line
from palaver.utils.run_folder import replace_text, writing
from palaver.utils.stats.effects import wilson

PAGE = "audit.html"
HERE = Path(__file__).resolve().parent


def write(audit: Audit, folder: Path) -> list[Path]:
    """Write `audit.html`, `audit.json` and the figures; returns their paths.

    Raises:
        ConfigError: the folder cannot be written.
    """
    paths = [folder / PAGE, folder / JSON]
    with writing(folder):
        replace_text(folder / JSON, json.dumps(audit.to_dict(), indent=1) + "\n")
        for stem, drawing in _drawings(audit).items():
            paths.append(folder / f"{stem}.png")
            save_figure(paths[-1], f"{drawing.title}: {one_line(audit.judge, 60)}", drawing.size, drawing.draw)
        replace_text(folder / PAGE, html(audit))
    return paths


def html(audit: Audit) -> str:
    """The page."""
    values = {
        "found": audit,
        "drawings": _drawings(audit),
        "at_fault": {fault.measure for fault in audit.faults},
        "made_with": audit.made,
    }
    return pages.render(HERE, "audit.html.j2", values, {"clean": clean, "shown": formatted})


def _drawings(audit: Audit) -> dict[str, Drawing]:
    """Figures by the stems of their files."""
    drawings: dict[str, Drawing] = {}
    if audit.bins:
        note = "Of the pairs that people decided: share right against confidence, with the number in each bin."
        drawings["reliability"] = Drawing("Reliability", note, (8.0, 3.0), partial(_draw_reliability, audit=audit))
    if audit.tried:
        note = "Answers that should win nothing, against the answer that people preferred."
        size = (8.0, 1.0 + 0.24 * len(audit.tried))
        drawings["probes"] = Drawing("Probes", note, size, partial(_draw_probes, audit=audit))
    return drawings


def _draw_reliability(chart: Chart, audit: Audit) -> None:
    """Draw accuracy against confidence by bin with Wilson's intervals.

    The dashed line is a calibrated judge.
    """
    calibrated = np.linspace(0.5, 1, 3)
    chart.line(calibrated, calibrated, chart.theme.muted, width=1, dashes=DASHED)
    ends = [wilson(bucket.right * bucket.n, bucket.n) for bucket in audit.bins]
    confidences, shares = [bucket.confidence for bucket in audit.bins], [bucket.right for bucket in audit.bins]
    chart.dots(confidences, shares, chart.color(0), ends=ends)
    for bucket in audit.bins:
        above = bucket.right < 0.1  # below it are the numbers of the axis
        chart.note(f"{bucket.n:,}", bucket.confidence, bucket.right, (8, 4 if above else -10))
    chart.labels("confidence, max(p, 1 - p)", "share right")
    chart.ax.set_xticks([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    chart.ax.set_xlim(0.47, 1.03)
    chart.ax.set_ylim(-0.02, 1.03)


def _draw_probes(chart: Chart, audit: Audit) -> None:
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
