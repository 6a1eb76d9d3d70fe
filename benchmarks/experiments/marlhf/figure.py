"""Figure of a run on a reward model: its score, the true reward, and the gap, over training."""

from __future__ import annotations

from pathlib import Path

from palaver.benchmarks.experiments.marlhf.truth import Truth
from palaver.benchmarks.reports.charts import PAPER, Chart, save_png, smoothed

TRUE, SCORE, GAP = PAPER.color(0), PAPER.color(1), PAPER.color(4)


def draw(result: Truth, title: str, path: Path) -> None:
    """Write the picture as PNG."""
    points = result.evaluations
    steps = [point.step for point in points]

    def rewards_and_gap(rewards: Chart, gap: Chart) -> None:
        if result.steps:
            means = smoothed([record.scaled for record in result.steps])
            rewards.line([record.step for record in result.steps], means, SCORE, "score, training tasks", alpha=0.5)
        rewards.dots(steps, [point.scaled for point in points], SCORE, "score, held-out tasks", marker="o--", size=5)
        ends = [(point.low, point.high) for point in points]
        name = "true reward, held-out tasks"
        rewards.dots(steps, [point.true for point in points], TRUE, name, ends=ends, marker="o-", size=5)
        rewards.labels(y="reward")
        gap.rule(0, dashes="-")
        gap.dots(steps, [point.gap for point in points], GAP, marker="o-", size=5)
        gap.labels("step; scores are on the scale of the reward, as they lay before training", "score less true")

    save_png(path, title, (8, 6), rewards_and_gap, layout=[[0], [1]], sharex=True, height_ratios=(5, 2))
