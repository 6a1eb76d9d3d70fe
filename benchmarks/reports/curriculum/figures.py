"""Figures of a curriculum's report: training curves, ratings, family tree of students.

Every `draw_` function draws on the given axes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from palaver.benchmarks.reports.charts import moving_mean, window_of
from palaver.benchmarks.reports.curriculum.data import CurriculumReport, Member
from palaver.benchmarks.reports.plot_style import Theme, dress, label, legend
from palaver.benchmarks.reports.run_folder import number

if TYPE_CHECKING:
    from matplotlib.axes import Axes

CURVES = {
    "loss": "Loss",
    "nll": "Negative log-likelihood",
    "accuracy": "Accuracy",
    "value_loss": "Loss of the value",
    "kept": "Share kept by the filter",
}
LABEL_HEIGHT = 0.04  # share of the axis


def curves(report: CurriculumReport) -> dict[str, str]:
    """Metrics of `CURVES` that were recorded: key -> heading."""
    lines = training_lines(report)
    return {key: heading for key, heading in CURVES.items() if any(number(line, key) is not None for line in lines)}


def training_lines(report: CurriculumReport) -> list[Mapping[str, object]]:
    """Lines of the metrics that are of training, one per recorded step."""
    return [line for line in report.lines if line["kind"] == "train"]


def draw_curve(ax: Axes, report: CurriculumReport, key: str, theme: Theme) -> None:
    """Draw one metric over the steps of all stages, in a colour for each attempt of a stage."""
    lines_of: dict[tuple[str, int], list[Mapping[str, object]]] = {}  # (stage, attempt) -> lines
    for line in training_lines(report):
        if number(line, key) is not None:
            lines_of.setdefault((str(line["stage"]), int(str(line["attempt"]))), []).append(line)
    for index, ((stage, attempt), lines) in enumerate(lines_of.items()):
        steps = [int(str(line["step"])) for line in lines]
        values = [number(line, key) or 0.0 for line in lines]
        name = stage if attempt == 1 else f"{stage}.{attempt}"
        ax.plot(
            steps,
            moving_mean(values, window_of(len(values))),
            color=theme.color(index),
            linewidth=1.8,
            marker="o" if len(steps) < 3 else "",  # a line of one point is invisible
            label=label(name),
        )
        if index:
            ax.axvline(steps[0] - 0.5, color=theme.grid, linewidth=1)
    dress(ax, theme)
    legend(ax, theme)


def rating_bars(ax: Axes, xs: Sequence[float], ratings: Sequence[Any], color: str, name: str) -> None:
    """Draw a line of Elo ratings with their 95 % intervals.

    Each rating has `elo`, `low` and `high`.
    """
    elo = [rating.elo for rating in ratings]
    below = [rating.elo - rating.low for rating in ratings]
    above = [rating.high - rating.elo for rating in ratings]
    errors = np.maximum([below, above], 0)  # matplotlib refuses negative lengths
    ax.errorbar(xs, elo, yerr=errors, fmt="o-", color=color, linewidth=1.2, elinewidth=2, capsize=4, label=name)


def draw_ratings(ax: Axes, report: CurriculumReport, theme: Theme) -> None:
    """Draw the students' Elo on every team set, and the opponents' on the first as horizontals."""
    if report.standings is None:
        return
    students = [member for member in report.family() if member.student]
    for index, teamset in enumerate(report.sets):
        rated = [(x, member.places[teamset]) for x, member in enumerate(students) if teamset in member.places]
        offset = 0.12 * (index - (len(report.sets) - 1) / 2)  # bars of several team sets are drawn next to each other
        xs = [x + offset for x, _ in rated]
        rating_bars(ax, xs, [place for _, place in rated], theme.color(index), label(teamset))
    opponents = [
        rating for rating in report.standings.tables[0].ratings if rating.player in report.spec.ratings.opponents
    ]
    for rating in opponents:
        ax.axhline(rating.elo, color=theme.muted, linewidth=0.8, linestyle=(0, (4, 4)), zorder=0)
    low, high = ax.get_ylim()
    label_heights = spaced([rating.elo for rating in opponents], LABEL_HEIGHT * (high - low))
    for rating, y in zip(opponents, label_heights, strict=True):
        ax.annotate(
            label(rating.player),
            (1.0, y),
            xycoords=("axes fraction", "data"),
            xytext=(4, 0),
            textcoords="offset points",
            va="center",
            fontsize=7.5,
            color=theme.muted,
        )
    dress(ax, theme, "")
    ax.set_xticks(range(len(students)), [label(member.label, 20) for member in students])
    ax.margins(x=0.15)
    legend(ax, theme)


def spaced(heights: Sequence[float], distance: float) -> list[float]:
    """Lower the heights of labels, given from the highest down, until they are `distance` apart.

    >>> spaced([10.0, 9.5, 4.0], 2.0)
    [10.0, 8.0, 4.0]
    """
    placed: list[float] = []
    for height in heights:
        placed.append(min(height, placed[-1] - distance) if placed else height)
    return placed


def draw_tree(ax: Axes, report: CurriculumReport, theme: Theme) -> None:
    """Draw the family tree with Elo as height.

    Students are arranged from left to right in order, teachers are at the left.

    Solid lines lead from a student to those initialised from it, dotted lines from a teacher to its students. Members
    without a rating are above all others.
    """
    family = report.family()
    teamset = report.sets[0] if report.sets else ""
    positions = _positions(family, teamset)
    for member in family:
        x, y = positions[member.label]
        for teacher in member.taught_by:
            if teacher in positions:
                xs, ys = zip(positions[teacher], (x, y), strict=True)
                ax.plot(xs, ys, color=theme.color(1), linewidth=1.1, linestyle=":")
        if member.parent:
            xs, ys = zip(positions[member.parent], (x, y), strict=True)
            ax.plot(xs, ys, color=theme.color(0), linewidth=2)
    for member in family:
        x, y = positions[member.label]
        unpromoted_color = theme.muted if member.student else theme.color(1)
        color = theme.color(0) if member.promoted else unpromoted_color
        ax.plot([x], [y], "o", color=color, markersize=8 if member.student else 6, clip_on=False)
        elo = member.elo(teamset)
        text = label(member.label, 24) + (", not rated" if elo is None else f" {elo:.0f}")
        ax.annotate(text, (x, y), xytext=(7, 6), textcoords="offset points", fontsize=8.5, color=theme.ink)
    dress(ax, theme, "")
    ax.set_xticks([])
    ax.margins(x=0.12, y=0.15)
    ax.set_ylabel("Elo" if teamset else "", color=theme.muted, fontsize=8.5)


def _positions(family: Sequence[Member], teamset: str) -> dict[str, tuple[float, float]]:
    """Map each member's label to (column, Elo).

    Students have columns of their own, teachers share the first.
    """
    ratings = [elo for member in family if (elo := member.elo(teamset)) is not None]
    span = max(ratings, default=1.0) - min(ratings, default=0.0)
    unrated_height = max(ratings, default=0.0) + 0.15 * span + 20
    positions: dict[str, tuple[float, float]] = {}
    column = 0
    for member in family:
        column += member.student
        elo = member.elo(teamset)
        positions[member.label] = (float(column), unrated_height if elo is None else elo)
    return positions
