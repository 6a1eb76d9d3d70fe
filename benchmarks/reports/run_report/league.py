"""A league in the report of its run: exploitability over training, cross-play, ratings."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from palaver.benchmarks.reports.charts import Cell, Chart, Drawing, label
from palaver.benchmarks.reports.run_folder import RunFolder, number

NAME = 24  # most characters of a player's name in the picture
EXACT = {"nash_conv": "the team", "nash_conv/pool": "mixture of its past selves"}


@dataclass(frozen=True, slots=True)
class LeagueView:
    """Values of the section.

    Attributes:
        drawings: name -> figure.
        step: update of the cross-play; None if there is none.
        ratings: name, Elo and interval of each player.
        intransitivity: share of triples that beat each other in a circle.
        games: episodes of each pairing.
    """

    drawings: Mapping[str, Drawing]
    step: int | None = None
    ratings: Sequence[tuple[str, str]] = ()
    intransitivity: float = 0.0
    games: int = 0


def league(run: RunFolder) -> LeagueView | None:
    """The section of a run with a league; None for others, or before the first evaluation."""
    drawings: dict[str, Drawing] = {}
    if nash_conv(run):
        note = "NashConv: what best responses gain over the policy; 0 in equilibrium."
        drawings["exploitability"] = Drawing("Exploitability", note, (4.9, 3.0), partial(draw_exploitability, run=run))
    if run.series("league/points")[1]:
        note = "Points of the learning team against its opponents: 1 a win, 1/2 a tie."
        drawings["points"] = Drawing("Against the pool", note, (4.9, 3.0), partial(draw_points, run=run))
    record = _crossplay(run)
    if record is None:
        return LeagueView(drawings) if drawings else None
    players, points = [str(name) for name in record["players"]], record["points"]
    wide = 2.2 + 0.9 * len(players)
    drawings["crossplay"] = Drawing(
        "Cross-play",
        "Points of the row against the column, in percent.",
        (wide, 1.6 + 0.55 * len(players)),
        partial(draw_crossplay, players=players, points=points),
    )
    ratings = [
        (name, f"{rating['elo']:.0f} ({rating['low']:.0f} to {rating['high']:.0f})")
        for name, rating in zip(players, record["ratings"], strict=True)
    ]
    return LeagueView(drawings, int(record["step"]), ratings, float(record["intransitivity"]), int(record["games"]))


def nash_conv(run: RunFolder, key: str = "nash_conv") -> list[tuple[int, float]]:
    """Step and NashConv of each evaluation that computed it."""
    return [(int(line["step"]), value) for line in run.evals if (value := number(line, key)) is not None]


def draw_exploitability(chart: Chart, run: RunFolder) -> None:
    """Draw NashConv of the team and of the mixture, at each evaluation."""
    for index, (key, name) in enumerate(EXACT.items()):
        if values := nash_conv(run, key):
            chart.line([step for step, _ in values], [value for _, value in values], chart.color(index), name)
    chart.labels("step", "NashConv")
    chart.ax.set_ylim(bottom=0)


def draw_points(chart: Chart, run: RunFolder) -> None:
    """Draw the points of the team, and of exploiters against it."""
    keys = [key for key in run.keys("") if key.endswith("league/points")]
    for index, key in enumerate(keys):
        steps, values = run.series(key)
        name = key.removesuffix("league/points").rstrip("/") or "main"
        chart.line(steps, values, chart.color(index), label(name) if len(keys) > 1 else "")
    chart.labels("step", "points")
    chart.ax.set_ylim(0, 1)


def draw_crossplay(chart: Chart, players: Sequence[str], points: Sequence[Sequence[float]]) -> None:
    """Draw the table of points as shaded cells."""
    cells = [
        [
            Cell() if row == column else Cell(f"{100 * value:.0f}", shade=2 * value - 1)
            for column, value in enumerate(line)
        ]
        for row, line in enumerate(points)
    ]
    names = [label(name, NAME) for name in players]
    chart.heatmap(names, names, cells, "", turned=True)


def _crossplay(run: RunFolder) -> Any:
    """Last table of cross-play that can be read; None without one."""
    for path in sorted((run.folder / "league").glob("crossplay-*.json"), reverse=True):
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            count = len(record["players"])
            whole = len(record["ratings"]) == len(record["points"]) == count
            if whole and all(len(row) == count for row in record["points"]):
                return record
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return None
