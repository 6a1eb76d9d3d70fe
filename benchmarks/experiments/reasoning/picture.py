"""Figure of the table of teams: a dot with its interval for each team, sampled and greedy."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from palaver.benchmarks.experiments.reasoning.results import Results
from palaver.benchmarks.experiments.reasoning.table import Line, lines
from palaver.benchmarks.reports.plot_style import PAPER, dress, entitle, figure, label, legend, save_png
from palaver.utils.stats.improvement import Improvement

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PICTURE = "teams.png"
APART = 0.16  # of a line's height: sampled above, greedy below


def write(results: Results, folder: Path) -> Path:
    """Draw all rows that have cells; the picture's path."""
    from matplotlib.ticker import MaxNLocator

    table_lines = lines(results)
    drawing = figure(9.2, 1.6 + 0.42 * len(table_lines))
    ax = drawing.add_subplot()
    entitle(drawing, f"Right answers to {len(results.tasks)} held-out problems")
    for index, (how, sign) in enumerate((("sampled", -1), ("greedy", 1))):
        _series(ax, [getattr(line, how) for line in table_lines], sign * APART, PAPER.color(index), how)
    dress(ax, PAPER, "share right, with its 95 % interval over seeds and problems")
    ax.grid(axis="y", visible=False)
    ax.grid(axis="x", color=PAPER.grid, linewidth=0.8)
    ax.xaxis.set_major_locator(MaxNLocator(8))
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:.2f}")
    ax.set_yticks(range(len(table_lines)), [_name(line) for line in table_lines], color=PAPER.ink)
    ax.set_ylim(len(table_lines) - 0.5, -0.5)
    legend(ax, PAPER)
    path = folder / PICTURE
    save_png(drawing, str(path))
    return path


def _name(line: Line) -> str:
    return f"{label(line.name)}\n{line.tokens:.0f} tokens a problem"


def _series(ax: Axes, shares: Sequence[Improvement], shift: float, color: str, name: str) -> None:
    heights = [index + shift for index in range(len(shares))]
    ends = [(share.low, share.high) for share in shares]
    low = [share.mean if low is None else low for share, (low, _) in zip(shares, ends, strict=True)]
    high = [share.mean if high is None else high for share, (_, high) in zip(shares, ends, strict=True)]
    ax.hlines(heights, low, high, color=color, linewidth=2.2, alpha=0.45)
    ax.plot([share.mean for share in shares], heights, "o", color=color, markersize=5.5, label=name)
