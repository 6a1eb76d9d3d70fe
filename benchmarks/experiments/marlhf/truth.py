"""True reward of a team trained on a reward model, the model's score, and their figure.

The environment still computes its own reward as the metric `own`. Scores of a reward model have neither a unit nor a
zero, so they are put on the scale of the reward by the straight line of least squares through the episodes of the
evaluation before training: true = a + b score. The gap is the score on that scale less the true reward. It is 0 before
training, and grows where the team finds out what the model likes and the environment does not (Gao et al., arXiv
2210.10760).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from palaver.benchmarks.reports.charts import Chart, save_figure, smoothed
from palaver.benchmarks.reports.palette import PAPER
from palaver.core import CheckpointError
from palaver.episodes import Episode
from palaver.trainers.rollout.evaluation import summarize
from palaver.trainers.run.files import METRICS
from palaver.trainers.run.logging import read_metrics
from palaver.utils.stats.improvement import Improvement, improvement

OWN = "own"
TRUE, SCORE, GAP = PAPER.color(0), PAPER.color(1), PAPER.color(4)


@dataclass(frozen=True, slots=True)
class TruthPoint:
    """One evaluation on held-out tasks.

    Attributes:
        step: updates done.
        true: mean true reward.
        low: lower end of its 95 % bootstrap interval over tasks; None for one task.
        high: upper end, likewise.
        score: mean score of the reward model, as it is.
        scaled: the same on the scale of the reward.
        gap: `scaled` less `true`.
        n: episodes.
    """

    step: int
    true: float
    low: float | None
    high: float | None
    score: float
    scaled: float
    gap: float
    n: int


@dataclass(frozen=True, slots=True)
class TruthStep:
    """One training step, on training tasks; means over its episodes, named as in `TruthPoint`."""

    step: int
    true: float
    score: float
    scaled: float


@dataclass(frozen=True, slots=True)
class Truth:
    """Results of a run on a reward model.

    Attributes:
        line: a and b.
        evaluations: in order.
        steps: in order.
        gain: true reward after training less that before, task by task, with its interval.
    """

    line: tuple[float, float]
    evaluations: Sequence[TruthPoint]
    steps: Sequence[TruthStep]
    gain: Improvement


def truth(folder: Path) -> Truth:
    """Compute the results of the run in this folder.

    Raises:
        CheckpointError: its episodes were not saved, or it was not trained on a reward model.
    """
    paths = {int(path.stem.rpartition("-")[2]): path for path in (folder / "episodes").glob("eval-*.jsonl")}
    played = {step: _episodes(paths[step]) for step in sorted(paths)}
    if len(played) < 2:
        raise CheckpointError(f"{str(folder)!r} has fewer than two evaluations with episodes (eval.n, log.episodes)")
    a, b = line(
        [
            (episode.team_return(), float(sum(turn.metrics[OWN] for turn in episode.turns)))
            for episode in played[min(played)]
        ]
    )
    summaries = {step: summarize([_paid_own(episode) for episode in episodes]) for step, episodes in played.items()}
    scores = {step: summarize(episodes).mean for step, episodes in played.items()}
    scaled = {step: a + b * score for step, score in scores.items()}
    points = [
        TruthPoint(step, own.mean, own.low, own.high, scores[step], scaled[step], scaled[step] - own.mean, own.n)
        for step, own in summaries.items()
    ]
    first, last = summaries[min(summaries)], summaries[max(summaries)]
    change = {task: last.by_task[task] - first.by_task[task] for task in first.by_task if task in last.by_task}
    steps = [
        TruthStep(row["step"], row[f"metric/{OWN}"], row["reward/mean"], a + b * row["reward/mean"])
        for row in read_metrics(folder / METRICS)
        if row["kind"] == "train"
    ]
    return Truth((a, b), points, steps, improvement([last.mean - first.mean], [change]))


def line(points: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """a and b of the least squares line y = a + b x; where all x are equal, the mean of y and 0.

    >>> a, b = line([(0.0, 1.0), (1.0, 3.0)])
    >>> round(a, 9), round(b, 9)
    (1.0, 2.0)
    """
    x, y = np.asarray(points, dtype=np.float64).T
    deviations = x - x.mean()
    spread = float(deviations @ deviations)
    b = float(deviations @ y) / spread if spread > 0 else 0.0
    return float(y.mean() - b * x.mean()), b


def _episodes(path: Path) -> list[Episode]:
    episodes = [Episode.from_dict(json.loads(text)) for text in path.read_text(encoding="utf-8").splitlines()]
    scored = [episode for episode in episodes if episode.scored]
    if not scored or any(OWN not in turn.metrics for episode in scored for turn in episode.turns):
        raise CheckpointError(f"{str(path)!r} does not hold the environment's own reward; was it trained on rm:FOLDER?")
    return scored


def _paid_own(episode: Episode) -> Episode:
    """Return the episode with the environment's own rewards."""
    turns = tuple(
        replace(
            turn,
            rewards=dict.fromkeys(turn.rewards, turn.metrics[OWN]),
            components={agent: {OWN: turn.metrics[OWN]} for agent in turn.rewards},
        )
        for turn in episode.turns
    )
    return replace(episode, turns=turns)


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
        true = [point.true for point in points]
        rewards.dots(steps, true, TRUE, "true reward, held-out tasks", ends=ends, marker="o-", size=5)
        rewards.labels(y="reward")
        gap.rule(0, dashes="-")
        gap.dots(steps, [point.gap for point in points], GAP, marker="o-", size=5)
        gap.labels("step; scores are on the scale of the reward, as they lay before training", "score less true")

    save_figure(path, title, (8, 6), rewards_and_gap, layout=[[0], [1]], sharex=True, height_ratios=(5, 2))
