"""Leaderboard in Markdown: overview by kind of team, scenarios, and every row with its cost."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from palaver.benchmarks.leaderboard.board import KINDS, BoardEntry, Kind
from palaver.benchmarks.leaderboard.read import BoardRows, VerifiedRow
from palaver.benchmarks.reports.summary import duration, interval
from palaver.markdown import code, link, markdown_table

HEAD = """# Leaderboard

Written by `palaver leaderboard` from result rows; do not edit it. How rows are measured, what they must say and how to
add one: {about}. The same with sorting, filters and sample episodes is the page
[{page}]({page}), a single file to open in a browser.

A score is the mean undiscounted return with its 95 % bootstrap interval over tasks. *most* is what can be earned at
most. *illegal*, behind a score or in a column, is the share of the answers that broke a rule; none did where no share
follows a score. The teams: `reference` is scripted, `random` knows nothing, `untrained` is the tiny model,
warm-started on texts of the environment's kind, `trained` is the same after a recipe of a few minutes.
"""
FOCUS = """## Scenarios

Members of the team play with frozen partners, as each of the agents in turn. The score is what the agents in focus
add: the return less the one of the same tasks and seeds with them silent; in battles, where two are rivals, it is their
own return. What a scenario is: {scenarios}.
"""


def markdown(board: BoardRows, entries: Sequence[BoardEntry], page: str, folder: Path) -> str:
    """The whole page; `page` is the address of the HTML page, `folder` that of the table."""
    alone = [row for row in board.rows if not row.row.scenario]
    scenario_rows = [row for row in board.rows if row.row.scenario]
    parts = [HEAD.format(page=page, about=_page(folder, "docs/leaderboard.md"))]
    if alone:
        parts += ["## Environments\n", _overview(alone, entries)]
    if scenario_rows:
        scenarios_link = _page(folder, "docs/evaluation.md", "#scenarios")
        parts += [FOCUS.format(scenarios=scenarios_link), _overview(scenario_rows, entries)]
    parts += ["## Every row\n", _every(board.rows, folder)]
    return "\n".join(parts)


def _page(folder: Path, path: str, anchor: str = "") -> str:
    """Return a link to a documentation page if it exists in the folder, else the page's name."""
    return f"[{path}]({path}{anchor})" if (folder / path).is_file() else f"`{path}` of Palaver"


def _overview(rows: Sequence[VerifiedRow], entries: Sequence[BoardEntry]) -> str:
    """Table with a row per environment or scenario, a column per kind, notes on missing cells."""
    notes: list[str] = []
    lines = []
    for what in dict.fromkeys(row.what for row in rows):
        by_label = {row.row.label: row for row in rows if row.what == what}
        missing = next((entry.missing for entry in entries if entry.what == what), {})
        max_return = next(iter(by_label.values())).most
        cells = [remarked(by_label[kind]) if kind in by_label else _reason(missing, kind, notes) for kind in KINDS]
        lines.append([code(what), f"{max_return:.3g}", *cells])
    listed = [f"{index}. {note}" for index, note in enumerate(notes, start=1)]
    overview = markdown_table(["", "most", *KINDS], lines, ["---", "---:", *["---"] * len(KINDS)])
    return "\n".join([overview, "", *(["Not there:", "", *listed, ""] if notes else [])])


def _reason(missing: dict[Kind, str], kind: Kind, notes: list[str]) -> str:
    if kind not in missing:
        return "–"
    if missing[kind] not in notes:
        notes.append(missing[kind])
    return f"– ({notes.index(missing[kind]) + 1})"


def score(row: VerifiedRow) -> str:
    """Mean and interval, of the focal agents if there are any."""
    return f"{row.mean:.2f} {interval(row.low, row.high, 2)}"


def illegal(row: VerifiedRow) -> str:
    """Share of illegal answers, and the number of answers."""
    return f"{100 * row.answers.share:.1f} % of {row.answers.due:,}"


def remarked(row: VerifiedRow) -> str:
    """The score, and the share of illegal answers if there were any."""
    return score(row) + (f", {100 * row.answers.share:.3g} % illegal" if row.answers.illegal else "")


def _every(rows: Sequence[VerifiedRow], folder: Path) -> str:
    head = ["", "team", "score", "illegal", "return", "share of most", "episodes", "tokens", "time", "dollars", "seed"]
    head += ["commit", "config"]
    rules = ["---"] * 3 + ["---:"] * 8 + ["---"] * 2
    lines = []
    for verified in rows:
        row = verified.row
        lines.append(
            [
                link(row.name, os.path.relpath(verified.path, folder)),
                code(row.team, 80),
                score(verified),
                illegal(verified),
                f"{row.mean:.2f}",
                f"{verified.share:.2f}",
                f"{row.n} ({row.tasks} x {row.samples})",
                tokens(verified),
                duration(row.seconds),
                f"{row.cost.dollars:.4f}" if row.cost else "–",
                str(row.seed),
                code(row.commit),
                code(row.config),
            ]
        )
    return f"{markdown_table(head, lines, rules)}\n"


def tokens(row: VerifiedRow) -> str:
    """Mean sampled tokens of an answer over the agents that sample any.

    A dash if none does, and in scenarios.
    """
    if row.row.scenario:
        return "–"
    counts = [count for count in row.row.tokens.values() if count]
    return f"{sum(counts) / len(counts):.0f}" if counts else "–"
