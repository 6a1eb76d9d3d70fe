"""Figures of the reports: training curves, ratings, family tree of students, an ablation.

Every `draw_` function draws on one chart.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from palaver.benchmarks.reports.charts import Chart, label, smoothed, spread
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
LABEL_HEIGHT = 0.055  # share of the axis
LETTER = 0.0105  # width of a letter, as a share of the axis


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
    heights = _apart(chart, [rating.elo for rating in opponents], [[True] * len(opponents)] * len(opponents))
    for rating, y in zip(opponents, heights, strict=True):
        chart.note(label(rating.player), None, y, (4, 0), va="center", fontsize=7.5)
    chart.labels(y="Elo")
    chart.ax.set_xticks(range(len(students)), [label(member.label, 20) for member in students])
    chart.ax.margins(x=0.15)


def _apart(chart: Chart, heights: Sequence[float], near: Sequence[Sequence[bool]]) -> list[float]:
    """Heights of labels, moved apart where two that are near each other would overlap."""
    low, high = chart.ax.get_ylim()
    shares = spread([(height - low) / (high - low) for height in heights], near, LABEL_HEIGHT)
    return [low + share * (high - low) for share in shares]


def draw_tree(chart: Chart, family: Sequence[Member], teamset: str) -> None:
    """Draw the family tree with the Elo on a team set as height.

    Students are arranged from left to right in order, teachers are at the left. Solid lines lead from a student to
    those initialised from it, dotted lines from a teacher to its students. Members without a rating have no height:
    they are listed below.
    """
    positions = _positions(family, teamset)
    for member in family:
        if member.label not in positions:
            continue
        x, y = positions[member.label]
        for teacher in (positions[name] for name in member.taught_by if name in positions):
            chart.line([teacher[0], x], [teacher[1], y], chart.color(1), width=1.1, dashes=":")
        if member.parent in positions:
            parent = positions[member.parent]
            chart.line([parent[0], x], [parent[1], y], chart.color(0), width=2)
    for member in family:
        if member.label in positions:
            x, y = positions[member.label]
            color = chart.color(0) if member.promoted else chart.theme.muted if member.student else chart.color(1)
            chart.dots([x], [y], color, size=9 if member.student else 7)
    chart.ax.margins(x=0.12, y=0.15)
    _name_members(chart, positions)
    missing = [_unrated(member, family) for member in family if member.label not in positions]
    chart.labels(textwrap.fill(f"Without a rating: {'; '.join(missing)}", 110) if missing else "", "Elo")
    chart.ax.set_xticks([])


def _name_members(chart: Chart, positions: Mapping[str, tuple[float, float]]) -> None:
    """Label the dots with names and ratings."""
    left, right = chart.ax.get_xlim()
    texts = [f"{label(name, 24)} {elo:.0f}" for name, (_, elo) in positions.items()]
    shares = [(x - left) / (right - left) for x, _ in positions.values()]
    near = [
        [abs(one - other) < LETTER * len(texts[min(i, j) if one == other else (i if one < other else j)]) + 0.02
         for j, other in enumerate(shares)]
        for i, one in enumerate(shares)
    ]  # fmt: skip
    heights = _apart(chart, [elo for _, elo in positions.values()], near)
    for text, (x, _), height in zip(texts, positions.values(), heights, strict=True):
        chart.note(text, x, height, (7, 6), outlined=True, color=chart.theme.ink)


def _unrated(member: Member, family: Sequence[Member]) -> str:
    taught = [label(other.label, 24) for other in family if member.label in other.taught_by]
    return label(member.label, 24) + (f" (taught {', '.join(taught)})" if taught else "")


def _positions(family: Sequence[Member], teamset: str) -> dict[str, tuple[float, float]]:
    """Map the labels of members with a rating to (column, Elo).

    Students have columns of their own, teachers share the first.
    """
    positions: dict[str, tuple[float, float]] = {}
    column = 0
    for member in family:
        column += member.student
        elo = member.elo(teamset)
        if elo is not None:
            positions[member.label] = (float(column), elo)
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
