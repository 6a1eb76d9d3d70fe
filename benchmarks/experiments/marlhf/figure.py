"""Figure of a run on a reward model: its score, the true reward, and the gap, over training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from palaver.benchmarks.experiments.marlhf.truth import Truth
from palaver.benchmarks.reports.charts import moving_mean, window_of
from palaver.benchmarks.reports.plot_style import PAPER, dress, entitle, figure, label, legend, save_png

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TRUE, SCORE, GAP = PAPER.color(0), PAPER.color(1), PAPER.color(4)


def draw(result: Truth, title: str, path: Path) -> None:
    """Write the picture as PNG."""
    drawn = figure(8, 6)
    entitle(drawn, label(title, 100))
    top, bottom = drawn.subplots(2, 1, sharex=True, height_ratios=(5, 2))
    _rewards(top, result)
    _gap(bottom, result)
    save_png(drawn, str(path))


def _rewards(ax: Axes, result: Truth) -> None:
    """Draw the training score, and each evaluation's score and true reward with its interval."""
    steps, points = [record.step for record in result.steps], result.evaluations
    if steps:
        means = moving_mean([record.scaled for record in result.steps], window_of(len(steps)))
        ax.plot(steps, means, color=SCORE, alpha=0.5, label="score, training tasks")
    at, true = [point.step for point in points], [point.true for point in points]
    ax.plot(at, [point.scaled for point in points], "o--", color=SCORE, markersize=4, label="score, held-out tasks")
    ends = [(point.true if end is None else end) for point in points for end in (point.low, point.high)]
    errors = [
        [mean - low for mean, low in zip(true, ends[::2], strict=True)],
        [high - mean for mean, high in zip(true, ends[1::2], strict=True)],
    ]
    ax.errorbar(
        at, true, yerr=errors, fmt="o-", capsize=3, markersize=4, color=TRUE, label="true reward, held-out tasks"
    )
    ax.set_ylabel("reward", color=PAPER.muted, fontsize=8.5)
    dress(ax, PAPER, x_label="")
    legend(ax, PAPER)


def _gap(ax: Axes, result: Truth) -> None:
    """Draw the score minus the true reward."""
    ax.axhline(0, color=PAPER.muted, linewidth=1)
    points = result.evaluations
    ax.plot([point.step for point in points], [point.gap for point in points], "o-", color=GAP, markersize=4)
    ax.set_ylabel("score less true", color=PAPER.muted, fontsize=8.5)
    dress(ax, PAPER, x_label="step; scores are on the scale of the reward, as they lay before training")
