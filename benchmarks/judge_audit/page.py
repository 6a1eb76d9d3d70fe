"""The report of an audit: one static page, its pictures, its numbers."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from palaver.benchmarks.judge_audit.run import JSON, Audit, ProbeResult
from palaver.benchmarks.judge_audit.table import formatted as formatted  # the command line prints it, too
from palaver.benchmarks.reports import html as pages
from palaver.benchmarks.reports import plot_style
from palaver.benchmarks.reports.html import Drawing
from palaver.core import ConfigError
from palaver.text import clean, one_line
from palaver.utils.run_folder import replace_text
from palaver.utils.stats.effects import wilson

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from palaver.benchmarks.reports.plot_style import Theme

PAGE = "audit.html"
HERE = Path(__file__).resolve().parent


def write(audit: Audit, folder: Path) -> list[Path]:
    """Write `audit.html`, `audit.json` and the figures; returns their paths.

    Raises:
        ConfigError: the folder cannot be written.
    """
    paths = [folder / PAGE, folder / JSON]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_text(folder / JSON, json.dumps(audit.to_dict(), indent=1) + "\n")
        for stem, (title, _, size, draw) in _drawings(audit).items():
            paths.append(folder / f"{stem}.png")
            named = plot_style.label(f"{title}: {one_line(audit.judge, 60)}", 90)
            pages.save_png(paths[-1], named, size, draw)
        replace_text(folder / PAGE, html(audit))
    except OSError as error:
        raise ConfigError(f"cannot write {str(error.filename or folder)!r}: {error.strerror}") from error
    return paths


def html(audit: Audit) -> str:
    """The page."""
    values = {
        "found": audit,
        "panels": pages.panels(_drawings(audit)),
        "at_fault": {fault.measure for fault in audit.faults},
        "made_with": audit.made,
    }
    return pages.render(HERE, "audit.html.j2", values, {"clean": clean, "shown": formatted})


def _drawings(audit: Audit) -> dict[str, Drawing]:
    """Map file stems to title, caption, size in inches, and drawing function."""
    drawings: dict[str, Drawing] = {}
    if audit.bins:
        note = "Of the pairs that people decided: share right against confidence, with the number in each bin."
        drawings["reliability"] = ("Reliability", note, (8.0, 3.0), functools.partial(_draw_reliability, audit))
    if audit.tried:
        note = "Answers that should win nothing, against the answer that people preferred."
        size = (8.0, 1.0 + 0.24 * len(audit.tried))
        drawings["probes"] = ("Probes", note, size, functools.partial(_draw_probes, audit))
    return drawings


def _draw_reliability(audit: Audit, ax: Axes, theme: Theme) -> None:
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
    plot_style.dress(ax, theme, "confidence, max(p, 1 - p)")
    ax.set_xticks([0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    ax.set_ylabel("share right", color=theme.muted, fontsize=8.5)
    ax.set_xlim(0.47, 1.03)
    ax.set_ylim(-0.02, 1.03)


def _draw_probes(audit: Audit, ax: Axes, theme: Theme) -> None:
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
    plot_style.dress(ax, theme, "percent of the pairs, over both orders")
    ax.grid(axis="y", visible=False)
    ax.grid(axis="x", color=theme.grid, linewidth=0.8)
    ax.set_yticks(range(len(rows)), [_name(result) for result in rows])
    ax.set_xticks([0, 25, 50, 75, 100])
    ax.set_xlim(0, 100)
    ax.set_ylim(-0.6, len(rows) - 0.4)
    plot_style.legend(ax, theme)


def _name(result: ProbeResult) -> str:
    return plot_style.label(f"{result.kind}: {result.name}", 48)
