"""Worth of a team's messages, as `palaver results analyse RUN --messages` has measured it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from palaver.benchmarks.reports.charts import Cell, Chart, Drawing, label
from palaver.benchmarks.reports.run_folder import RunFolder, number, numbers
from palaver.benchmarks.viewer.messages import table_of

NAME = 24  # most characters of an agent's name in the pictures


@dataclass(frozen=True, slots=True)
class MessagesView:
    """Values of the section: name -> figure, and name and value of each number."""

    drawings: Mapping[str, Drawing]
    facts: Sequence[tuple[str, str]]


def messages(run: RunFolder) -> MessagesView | None:
    """The section; None if nothing was measured, or what was cannot be read."""
    record = table_of(run.folder)
    if number(record, "mean") is None:
        return None
    effects = {str(name): numbers(effect) for name, effect in _mapping(record, "effects").items()}
    effects = {name: effect for name, effect in effects.items() if "difference" in effect}
    influence = {str(sender): numbers(row) for sender, row in _mapping(record, "influence").items()}
    drawings = {}
    if effects:
        note = "Return under an intervention less that of the team as it is; 95 % intervals over tasks."
        size = (4.9, 1.2 + 0.45 * len(effects))
        drawings["effects"] = Drawing("Worth of messages", note, size, partial(draw_effects, effects=effects))
    if influence:
        note = "Share of the column's later texts that change when the row is silenced, in percent."
        every = dict.fromkeys([*influence, *(name for row in influence.values() for name in row)])
        receivers = [name for name in every if any(name in row for row in influence.values())]
        size = (2.6 + 0.9 * len(receivers), 1.6 + 0.55 * len(influence))
        drawings["influence"] = Drawing(
            "Influence", note, size, partial(draw_influence, influence=influence, receivers=receivers)
        )
    return MessagesView(drawings, _facts(record))


def draw_effects(chart: Chart, effects: Mapping[str, Mapping[str, float]]) -> None:
    """Draw the difference of each intervention with its interval."""
    names, rows = [label(name, NAME) for name in effects], list(effects.values())
    chart.rows(names)
    ends = [(row.get("low"), row.get("high")) for row in rows]
    chart.dots([row["difference"] for row in rows], [*range(len(rows))], chart.color(0), ends=ends, across=True)
    chart.ax.axvline(0, color=chart.theme.muted, linewidth=1)
    chart.labels("difference of the return")


def draw_influence(chart: Chart, influence: Mapping[str, Mapping[str, float]], receivers: Sequence[str]) -> None:
    """Draw the shares as shaded cells, senders in rows."""
    cells = [
        [Cell(f"{100 * row[name]:.0f}", shade=row[name]) if name in row else Cell() for name in receivers]
        for row in influence.values()
    ]
    chart.heatmap([label(name, NAME) for name in influence], [label(name, NAME) for name in receivers], cells, "")


def _facts(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    shown = {"episodes": "episodes", "mean": "mean return", "messages": "messages an episode", "tokens": "tokens"}
    shown |= {"return_per_100_tokens": "return per 100 tokens"}
    facts = [(name, f"{value:.4g}") for key, name in shown.items() if (value := number(record, key)) is not None]
    held = numbers(record.get("facts"))
    shares = {"sent": "facts of one agent that it sent", "used": "of these, used by another"}
    return facts + [(name, f"{held[key]:.2f}") for key, name in shares.items() if key in held]


def _mapping(record: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = record.get(key)
    return value if isinstance(value, Mapping) else {}
