"""The curves of a curriculum: each function draws one thing on one pair of axes."""

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


LINE = 0.04  # of the axis: height of a label


def curves(report: CurriculumReport) -> dict[str, str]:
    """Map recorded training metrics to headings."""
    return {key: name for key, name in CURVES.items() if any(number(line, key) is not None for line in train(report))}


def train(report: CurriculumReport) -> list[Mapping[str, object]]:
    """The lines of the training."""
    return [line for line in report.lines if line["kind"] == "train"]


def draw_curve(ax: Axes, report: CurriculumReport, key: str, theme: Theme) -> None:
    """Draw one metric over the steps of all stages, with a colour for each attempt."""
    attempts: dict[tuple[str, int], list[Mapping[str, object]]] = {}
    for line in train(report):
        if number(line, key) is not None:
            attempts.setdefault((str(line["stage"]), int(str(line["attempt"]))), []).append(line)
    for n, ((stage, attempt), lines) in enumerate(attempts.items()):
        steps = [int(str(line["step"])) for line in lines]
        values = [number(line, key) or 0.0 for line in lines]
        name = stage if attempt == 1 else f"{stage}.{attempt}"
        mark = "o" if len(steps) < 3 else ""
        ax.plot(
            steps,
            moving_mean(values, window_of(len(values))),
            color=theme.color(n),
            linewidth=1.8,
            marker=mark,
            label=label(name),
        )
        if n:
            ax.axvline(steps[0] - 0.5, color=theme.grid, linewidth=1)
    dress(ax, theme)
    legend(ax, theme)


def rating_bars(ax: Axes, xs: Sequence[float], ratings: Sequence[Any], color: str, name: str) -> None:
    """Draw a line of Elo ratings with their 95 % intervals; each rating has `elo`, `low` and `high`."""
    elo = [rating.elo for rating in ratings]
    ends = np.maximum([[r.elo - r.low for r in ratings], [r.high - r.elo for r in ratings]], 0)
    ax.errorbar(xs, elo, yerr=ends, fmt="o-", color=color, linewidth=1.2, elinewidth=2, capsize=4, label=name)


def draw_ratings(ax: Axes, report: CurriculumReport, theme: Theme) -> None:
    """Draw the students' Elo with intervals on every team set, and the opponents' on the first as lines."""
    if report.standings is None:
        return
    students = [member for member in report.family() if member.student]
    for n, teamset in enumerate(report.sets):
        places = [(x, member.places[teamset]) for x, member in enumerate(students) if teamset in member.places]
        xs = [x + 0.12 * (n - (len(report.sets) - 1) / 2) for x, _ in places]
        rating_bars(ax, xs, [point for _, point in places], theme.color(n), label(teamset))
    rated = [
        opponent for opponent in report.standings.tables[0].ratings if opponent.player in report.spec.ratings.opponents
    ]
    for rating in rated:
        ax.axhline(rating.elo, color=theme.muted, linewidth=0.8, linestyle=(0, (4, 4)), zorder=0)
    low, high = ax.get_ylim()
    for rating, y in zip(rated, spaced([opponent.elo for opponent in rated], LINE * (high - low)), strict=True):
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


def spaced(heights: Sequence[float], least: float) -> list[float]:
    """Space heights of labels, from the highest down, at least `least` apart.

    >>> spaced([10.0, 9.5, 4.0], 2.0)
    [10.0, 8.0, 4.0]
    """
    placed: list[float] = []
    for height in heights:
        placed.append(min(height, placed[-1] - least) if placed else height)
    return placed


def draw_tree(ax: Axes, report: CurriculumReport, theme: Theme) -> None:
    """Draw the family tree: students from left to right in order, teachers at the left, heights by rating.

    Solid lines lead from a student to those initialised from it, dotted ones from a teacher to its student. Unrated
    players are above all others.
    """
    family = report.family()
    teamset = report.sets[0] if report.sets else ""
    at = _places(family, teamset)
    for member in family:
        x, y = at[member.label]
        for teacher in member.taught_by:
            if teacher in at:
                ax.plot(*zip(at[teacher], (x, y), strict=True), color=theme.color(1), linewidth=1.1, linestyle=":")
        if member.parent:
            ax.plot(*zip(at[member.parent], (x, y), strict=True), color=theme.color(0), linewidth=2)
    for member in family:
        x, y = at[member.label]
        color = theme.color(0) if member.promoted else theme.muted if member.student else theme.color(1)
        ax.plot([x], [y], "o", color=color, markersize=8 if member.student else 6, clip_on=False)
        elo = member.elo(teamset)
        text = label(member.label, 24) + (", not rated" if elo is None else f" {elo:.0f}")
        ax.annotate(text, (x, y), xytext=(7, 6), textcoords="offset points", fontsize=8.5, color=theme.ink)
    dress(ax, theme, "")
    ax.set_xticks([])
    ax.margins(x=0.12, y=0.15)
    ax.set_ylabel("Elo" if teamset else "", color=theme.muted, fontsize=8.5)


def _places(family: Sequence[Member], teamset: str) -> dict[str, tuple[float, float]]:
    rated = [elo for member in family if (elo := member.elo(teamset)) is not None]
    above = max(rated, default=0.0) + 0.15 * (max(rated, default=1.0) - min(rated, default=0.0)) + 20
    at: dict[str, tuple[float, float]] = {}
    column = 0
    for member in family:
        column += member.student
        elo = member.elo(teamset)
        at[member.label] = (float(column), above if elo is None else elo)
    return at
