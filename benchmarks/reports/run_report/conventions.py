"""Conventions over training: share of an agent's texts that are alike, by evaluation."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from palaver.benchmarks.reports.charts import Chart, Drawing, label
from palaver.benchmarks.reports.run_folder import RunFolder, number
from palaver.episodes import Episode
from palaver.text import one_line

LENGTH = 60  # characters of a text that are compared
FEWEST = 2  # evaluations, and episodes of each


@dataclass(frozen=True, slots=True)
class Convention:
    """Most frequent form of an agent's texts in one evaluation.

    A form is the beginning of a text in lower case, with each number as 0.

    Attributes:
        form: that of most texts, over all turns.
        share: of texts with the most frequent form of their turn.
        forms: different ones, over all turns.
        texts: number of texts.
    """

    form: str
    share: float
    forms: int
    texts: int


@dataclass(frozen=True, slots=True)
class ConventionsView:
    """Values of the section: the figure, and agent -> its first and last convention."""

    drawing: Drawing
    rows: Sequence[tuple[str, Convention, Convention]]


def form_of(text: str) -> str:
    """Beginning of a text in lower case, its numbers and spaces made alike."""
    return one_line(re.sub(r"\d+", "0", text[: 4 * LENGTH].lower()), 4 * LENGTH)[:LENGTH]


def conventions_of(episodes: Sequence[Episode]) -> dict[str, Convention]:
    """Agent -> its convention in the episodes of one evaluation."""
    counts: dict[str, dict[int, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for episode in episodes:
        for turn in episode.turns:
            for agent, completion in turn.completions.items():
                counts[agent][turn.index][form_of(completion.text)] += 1
    found = {}
    for agent, turns in counts.items():
        together = sum(turns.values(), Counter[str]())
        form, _ = max(together.items(), key=lambda item: (item[1], item[0]))
        total = together.total()
        alike = sum(max(turn.values()) for turn in turns.values())
        found[agent] = Convention(form, alike / total, len(together), total)
    return found


def conventions(run: RunFolder) -> ConventionsView | None:
    """The section; None with fewer than two evaluations of two recorded episodes."""
    steps = sorted({int(line["step"]) for line in run.evals if number(line, "step") is not None})
    recorded = {step: episodes for step in steps if len(episodes := run.episodes(step)) >= FEWEST}
    if len(recorded) < FEWEST:
        return None
    by_step = {step: conventions_of(episodes) for step, episodes in recorded.items()}
    agents = list(dict.fromkeys(agent for found in by_step.values() for agent in found))
    series = {agent: {step: found[agent] for step, found in by_step.items() if agent in found} for agent in agents}
    note = "Share of an agent's texts that have the most frequent form of their turn, in each evaluation."
    drawing = Drawing("Conventions", note, (4.9, 3.0), partial(draw, series=series))
    ends = [(agent, list(points.values())) for agent, points in series.items() if len(points) >= FEWEST]
    return ConventionsView(drawing, [(agent, points[0], points[-1]) for agent, points in ends]) if ends else None


def draw(chart: Chart, series: Mapping[str, Mapping[int, Convention]]) -> None:
    """Draw the shares over training, a line for each agent."""
    for index, (agent, points) in enumerate(series.items()):
        shares = [found.share for found in points.values()]
        chart.line([*points], shares, chart.color(index), label(agent) if len(series) > 1 else "")
    chart.labels("step", "share of texts")
    chart.ax.set_ylim(0, 1)
