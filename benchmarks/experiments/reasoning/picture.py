"""Figure of the table of teams: a dot with its interval for each team, sampled and greedy."""

from __future__ import annotations

from pathlib import Path

from palaver.benchmarks.experiments.reasoning.results import Results
from palaver.benchmarks.experiments.reasoning.table import Line, lines
from palaver.benchmarks.reports.charts import Chart, label, save_png

PICTURE = "teams.png"
APART = 0.16  # of a line's height: sampled above, greedy below


def write(results: Results, folder: Path) -> Path:
    """Draw all rows that have cells; the picture's path."""
    table_lines = lines(results)

    def draw(chart: Chart) -> None:
        for index, (how, shift) in enumerate((("sampled", -APART), ("greedy", APART))):
            shares = [getattr(line, how) for line in table_lines]
            heights = [row + shift for row in range(len(shares))]
            ends = [(share.low, share.high) for share in shares]
            chart.dots([share.mean for share in shares], heights, chart.color(index), how, ends=ends, across=True)
        chart.rows([_name(line) for line in table_lines])
        chart.labels("share right, with its 95 % interval over seeds and problems")

    title = f"Right answers to {len(results.tasks)} held-out problems"
    save_png(folder / PICTURE, title, (9.2, 1.6 + 0.42 * len(table_lines)), draw)
    return folder / PICTURE


def _name(line: Line) -> str:
    return f"{label(line.name)}\n{line.tokens:.0f} tokens a problem"
