"""Figures of the reports: training curves, ratings, family tree of students, an ablation.

Every `draw_` function draws on one chart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from palaver.benchmarks.reports.charts import Chart, label, smoothed
from palaver.benchmarks.reports.curriculum.data import CurriculumReport, Member
from palaver.benchmarks.reports.run_folder import number
from palaver.trainers.curriculum.ablation import Ablation

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


def draw_curve(chart: Chart, report: CurriculumReport, key: str) -> None:
    """Draw one metric over the steps of all stages, in a colour for each attempt of a stage."""
    lines_of: dict[tuple[str, int], list[Mapping[str, object]]] = {}  # (stage, attempt) -> lines
    for line in training_lines(report):
        if number(line, key) is not None:
            lines_of.setdefault((str(line["stage"]), int(str(line["attempt"]))), []).append(line)
    for index, ((stage, attempt), lines) in enumerate(lines_of.items()):
        steps = [int(str(line["step"])) for line in lines]
        name = stage if attempt == 1 else f"{stage}.{attempt}"
        chart.line(steps, smoothed([number(line, key) or 0.0 for line in lines]), chart.color(index), label(name))
        if index:
            chart.ax.axvline(steps[0] - 0.5, color=chart.theme.grid, linewidth=1)
    chart.labels("step")


def draw_elo(chart: Chart, xs: Sequence[float], ratings: Sequence[Any], index: int, name: str) -> None:
    """Draw line `index` of Elo ratings with their 95 % intervals.

    Each rating has `elo`, `low` and `high`.
    """
    ends = [(rating.low, rating.high) for rating in ratings]
    chart.dots(xs, [rating.elo for rating in ratings], chart.color(index), label(name), ends=ends, marker="o-")


def draw_ratings(chart: Chart, report: CurriculumReport) -> None:
    """Draw the students' Elo on every team set, and the opponents' on the first as horizontals."""
    if report.standings is None:
        return
    students = [member for member in report.family() if member.student]
    for index, teamset in enumerate(report.sets):
        rated = [(x, member.places[teamset]) for x, member in enumerate(students) if teamset in member.places]
        offset = 0.12 * (index - (len(report.sets) - 1) / 2)  # bars of several team sets are drawn next to each other
        draw_elo(chart, [x + offset for x, _ in rated], [place for _, place in rated], index, teamset)
    opponents = [
        rating for rating in report.standings.tables[0].ratings if rating.player in report.spec.ratings.opponents
    ]
    for rating in opponents:
        chart.rule(rating.elo)
    low, high = chart.ax.get_ylim()
    heights = spaced([rating.elo for rating in opponents], LABEL_HEIGHT * (high - low))
    for rating, y in zip(opponents, heights, strict=True):
        chart.note(label(rating.player), None, y, (4, 0), va="center", fontsize=7.5)
    chart.labels(y="Elo")
    chart.ax.set_xticks(range(len(students)), [label(member.label, 20) for member in students])
    chart.ax.margins(x=0.15)


def spaced(heights: Sequence[float], distance: float) -> list[float]:
    """Lower the heights of labels, given from the highest down, until they are `distance` apart.

    >>> spaced([10.0, 9.5, 4.0], 2.0)
    [10.0, 8.0, 4.0]
    """
    placed: list[float] = []
    for height in heights:
        placed.append(min(height, placed[-1] - distance) if placed else height)
    return placed


def draw_tree(chart: Chart, report: CurriculumReport) -> None:
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
        for teacher in (positions[name] for name in member.taught_by if name in positions):
            chart.line([teacher[0], x], [teacher[1], y], chart.color(1), width=1.1, dashes=":")
        if member.parent:
            parent = positions[member.parent]
            chart.line([parent[0], x], [parent[1], y], chart.color(0), width=2)
    for member in family:
        x, y = positions[member.label]
        unpromoted_color = chart.theme.muted if member.student else chart.color(1)
        chart.dots([x], [y], chart.color(0) if member.promoted else unpromoted_color, size=9 if member.student else 7)
        elo = member.elo(teamset)
        text = label(member.label, 24) + (", not rated" if elo is None else f" {elo:.0f}")
        chart.note(text, x, y, (7, 6), color=chart.theme.ink)
    chart.labels(y="Elo" if teamset else "")
    chart.ax.set_xticks([])
    chart.ax.margins(x=0.12, y=0.15)


def _positions(family: Sequence[Member], teamset: str) -> dict[str, tuple[float, float]]:
    """Map each member's label to (column, Elo).

    Students have columns of their own, teachers share the first; those without a rating are above all others, each a
    label's height above the last.
    """
    ratings = [elo for member in family if (elo := member.elo(teamset)) is not None]
    span = max(ratings, default=1.0) - min(ratings, default=0.0)
    height = max(ratings, default=0.0) + 0.15 * span + 20
    positions: dict[str, tuple[float, float]] = {}
    column = 0
    for member in family:
        column += member.student
        elo = member.elo(teamset)
        positions[member.label] = (float(column), height if elo is None else elo)
        if elo is None and not member.student:
            height += 2 * LABEL_HEIGHT * span
    return positions


def draw_ablation(chart: Chart, ablation: Ablation) -> None:
    """Draw Elo over the values with 95 % intervals, a line for each team set.

    Values that are numbers are drawn to scale.
    """
    at = _scale([variant.value for variant in ablation.variants])
    for n, table in enumerate(ablation.standings.tables):
        points = [
            (x, p)
            for x, variant in zip(at, ablation.variants, strict=True)
            for p in variant.places
            if p.teamset == table.teamset
        ]
        shift = 0.008 * (max(at) - min(at)) * n
        xs = [x + shift for x, _ in points]
        draw_elo(chart, xs, [rating for _, rating in points], n, table.teamset)
    chart.labels(label(ablation.key), "Elo")
    chart.ax.set_xticks(at, [label(variant.value, 20) for variant in ablation.variants])


def _scale(values: Sequence[str]) -> list[float]:
    try:
        return [float(value) for value in values]
    except ValueError:
        return [float(n) for n in range(len(values))]
