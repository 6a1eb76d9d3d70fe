"""Computed part and figure of the README's first screen, from the kept runs of the writing recipe.

`python -m docs.build.first_screen` redraws `docs/figures/training.png`.
"""

from __future__ import annotations

import html
import statistics
from collections.abc import Sequence
from pathlib import Path

from palaver.benchmarks.comparison.finished_runs import Trial, trial
from palaver.benchmarks.evaluation.results import read_episodes
from palaver.benchmarks.reports.charts import Chart, save_figure, smoothed
from palaver.benchmarks.reports.run_folder import read

DOCS = Path(__file__).resolve().parents[1]
RECIPE = "arxiv-magrpo"
FIGURE = DOCS / "figures" / "training.png"
MOST = 3  # largest return of the task


def parts(kept_runs: Path) -> dict[str, str]:
    """Name -> Markdown of every part."""
    return {"texts": texts(kept_runs / RECIPE / "seed-0")}


def texts(folder: Path) -> str:
    """Table of what both agents write before and after training, for the episode with the median gain."""
    before, after = (read_episodes(path)[0] for path in sorted((folder / "episodes").glob("eval-*.jsonl")))
    pairs = sorted(zip(before, after, strict=True), key=lambda pair: pair[1].team_return() - pair[0].team_return())
    pair = pairs[len(pairs) // 2]
    first, last = (episode.team_return() for episode in pair)
    lines = [f"| agent | before training: reward {first:.2f} of {MOST} | after: {last:.2f} |", "|---|---|---|"]
    for agent in pair[0].turns[0].completions:
        written = (html.escape(episode.turns[0].completions[agent].text.strip(), quote=False) for episode in pair)
        lines.append(f"| `{agent}` | {' | '.join(written)} |")
    return "\n".join(lines)


def draw(chart: Chart, runs: Sequence[Trial]) -> None:
    """Draw each run's training reward with its held-out reward before and after training."""
    before = statistics.fmean(run.before.mean for run in runs)
    chart.rule(before)
    chart.note(f"before training {before:.2f}", None, before, (0, 4), ha="right")
    for index, run in enumerate(runs):
        steps, values = run.run.series("reward/mean")
        color = chart.color(index)
        chart.line(steps, smoothed(values), color, f"seed {run.config.seed}: {run.after.mean:.2f} after")
        chart.dots([steps[-1]], [run.after.mean], color)
    chart.ax.set_ylim(0, MOST)
    chart.labels("step", f"reward, of {MOST} at most")


def main() -> None:
    """Draw the figure."""
    runs = [trial(read(folder)) for folder in sorted((DOCS / "runs" / RECIPE).glob("seed-*"))]
    title = "Three runs of two writers: training reward; dots: held-out tasks, after training"
    save_figure(FIGURE, title, (9, 3.6), lambda chart: draw(chart, runs))


if __name__ == "__main__":
    main()
