"""The table of teams, in Markdown, as a figure and exported with its runs.

It has shares of right answers with intervals, and costs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Literal

from palaver.benchmarks.comparison.export import export_run, exporting
from palaver.benchmarks.comparison.finished_runs import trial
from palaver.benchmarks.experiments.reasoning.results import Results, TeamSeedResult, load
from palaver.benchmarks.reports.charts import Chart, label, save_figure
from palaver.benchmarks.reports.run_folder import read
from palaver.benchmarks.reports.summary import interval
from palaver.utils.stats.improvement import Improvement, improvement
from palaver.utils.tables import Table

PICTURE = "teams.png"
APART = 0.16  # of a line's height: sampled above, greedy below
How = Literal["sampled", "greedy"]
COLUMNS = (
    "team",
    "right, sampled",
    "right, greedy",
    "learnt",
    "difference",
    "tokens trained on",
    "tokens a problem",
    "CPU s",
)


@dataclass(frozen=True)
class Line:
    """One row of the table.

    Attributes:
        name: of the team.
        seeds: number of seeds.
        sampled: share of right answers with its interval.
        greedy: the same with greedy decoding.
        learnt: `sampled` less that of the same team before training, paired by problem and seed; None if there is none.
        gain: `sampled` less that of the row to compare with; None for that row itself, and if it is missing.
        training_tokens: mean over seeds.
        tokens: written for a problem, mean over seeds.
        cpu_s: of training, mean over seeds.
    """

    name: str
    seeds: int
    sampled: Improvement
    greedy: Improvement
    learnt: Improvement | None
    gain: Improvement | None
    training_tokens: float
    tokens: float
    cpu_s: float


def lines(results: Results) -> list[Line]:
    """Lines of all rows that have cells."""
    return [
        Line(
            name,
            len(cells),
            share(cells, "sampled", results.tasks),
            share(cells, "greedy", results.tasks),
            difference(cells, results.of(results.after.get(name, "")), results.tasks),
            difference(cells, results.of(results.baseline), results.tasks) if name != results.baseline else None,
            fmean(cell.training_tokens for cell in cells),
            fmean(cell.tokens for cell in cells),
            fmean(cell.cpu_s for cell in cells),
        )
        for name in results.rows
        if (cells := results.of(name))
    ]


def difference(
    cells: Sequence[TeamSeedResult], others: Sequence[TeamSeedResult], tasks: Sequence[str]
) -> Improvement | None:
    """Difference of the sampled shares of two rows on common seeds and problems.

    None without a common seed.
    """
    by_seed = {cell.seed: cell for cell in others}
    pairs = [(cell, by_seed[cell.seed]) for cell in cells if cell.seed in by_seed]
    gains = [{task: a - b for task, a, b in zip(tasks, one.sampled, two.sampled, strict=True)} for one, two in pairs]
    return improvement([fmean(gain.values()) for gain in gains], gains) if gains else None


def share(cells: Sequence[TeamSeedResult], how: How, tasks: Sequence[str]) -> Improvement:
    """The share of right answers over seeds and problems.

    Its 95 % interval is that of `palaver.utils.stats.improvement`: a percentile bootstrap that resamples seeds and
    problems independently (Owen 2007).
    """
    grid = [dict(zip(tasks, getattr(cell, how), strict=True)) for cell in cells]
    return improvement([fmean(returns.values()) for returns in grid], grid)


def markdown(results: Results) -> str:
    """The table and its caption."""
    rows = [cells_of(line) for line in lines(results)]
    return f"{Table(head=COLUMNS, rows=rows, right=range(1, len(COLUMNS))).grid()}\n\n{caption(results)}"


def cells_of(line: Line) -> tuple[str, ...]:
    """Formatted cells of a line."""
    return (
        line.name,
        share_text(line.sampled),
        share_text(line.greedy),
        *(
            "–" if gain is None else f"{gain.mean:+.3f} {interval(gain.low, gain.high)}"
            for gain in (line.learnt, line.gain)
        ),
        f"{line.training_tokens:,.0f}",
        f"{line.tokens:.0f}",
        f"{line.cpu_s:.0f}",
    )


def share_text(share: Improvement) -> str:
    """Format a share and its interval."""
    return f"{share.mean:.3f} {interval(share.low, share.high)}"


def caption(results: Results) -> str:
    """Caption of the table."""
    seeds = sorted({cell.seed for cell in results.cells})
    return (
        f"Share of {len(results.tasks)} held-out problems that the team's answer gets right, mean over {len(seeds)} "
        f"seed{'s' * (len(seeds) > 1)}, with 95 % intervals over seeds and problems. Learnt: sampled, less that of the "
        f"same team before training; difference: less that of {results.baseline}. Tokens a problem are of all agents "
        "and turns, sampled."
    )


def draw_picture(results: Results, folder: Path) -> Path:
    """Draw all rows that have cells; the picture's path."""
    table_lines = lines(results)

    def draw(chart: Chart) -> None:
        for index, (how, shift) in enumerate((("sampled", -APART), ("greedy", APART))):
            shares = [getattr(line, how) for line in table_lines]
            heights = [row + shift for row in range(len(shares))]
            ends = [(share.low, share.high) for share in shares]
            chart.dots([share.mean for share in shares], heights, chart.color(index), how, ends=ends, across=True)
        chart.rows([f"{label(line.name)}\n{line.tokens:.0f} tokens a problem" for line in table_lines])
        chart.labels("share right, with its 95 % interval over seeds and problems")

    title = f"Right answers to {len(results.tasks)} held-out problems"
    save_figure(folder / PICTURE, title, (9.2, 1.6 + 0.42 * len(table_lines)), draw)
    return folder / PICTURE


def export_runs(table: Path, folder: Path) -> Path:
    """Export a finished table to a new folder.

    Raises:
        CheckpointError: there is no table, or one of its runs is not finished.
        ConfigError: the folder exists, or cannot be written.
    """
    results = load(table)
    runs = [trial(read(path)) for path in sorted((table / "runs").glob("*")) if path.is_dir()]
    with exporting(folder):
        folder.mkdir(parents=True)
        for run in runs:
            export_run(run, folder / "runs" / run.run.folder.name)
        results.save(folder)
        draw_picture(results, folder)
    return folder
