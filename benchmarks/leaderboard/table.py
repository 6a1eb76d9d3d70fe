"""The leaderboard in Markdown: an overview of kinds of teams, the scenarios, and every row with its cost."""

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

Members of the team play among frozen strangers, in each of the seats in turn. The score is what the agents in focus
add: the return less the one of the same tasks and seeds with them silent; in battles, where two are rivals, it is their
own return. What a scenario is: {scenarios}.
"""


def markdown(found: BoardRows, entries: Sequence[BoardEntry], page: str, folder: Path) -> str:
    """The whole page; `page` is the address of the HTML page, `folder` that of the table."""
    alone = [each for each in found.rows if not each.row.scenario]
    beside = [each for each in found.rows if each.row.scenario]
    parts = [HEAD.format(page=page, about=_page(folder, "docs/leaderboard.md"))]
    if alone:
        parts += ["## Environments\n", _overview(alone, entries)]
    if beside:
        told = _page(folder, "docs/evaluation.md", "#scenarios")
        parts += [FOCUS.format(scenarios=told), _overview(beside, entries)]
    parts += ["## Every row\n", _every(found.rows, folder)]
    return "\n".join(parts)


def _page(folder: Path, path: str, anchor: str = "") -> str:
    """Return a link to a page of the documentation if it is reachable from the folder, else the page's name."""
    return f"[{path}]({path}{anchor})" if (folder / path).is_file() else f"`{path}` of Palaver"


def _overview(rows: Sequence[VerifiedRow], entries: Sequence[BoardEntry]) -> str:
    """One line per environment or scenario, one column per kind; reasons for missing cells follow as notes."""
    notes: list[str] = []
    lines = []
    for what in dict.fromkeys(each.what for each in rows):
        own = {each.row.label: each for each in rows if each.what == what}
        missing = next((entry.missing for entry in entries if entry.what == what), {})
        most = next(iter(own.values())).most
        cells = [remarked(own[kind]) if kind in own else _reason(missing, kind, notes) for kind in KINDS]
        lines.append([code(what), f"{most:.3g}", *cells])
    listed = [f"{number}. {note}" for number, note in enumerate(notes, start=1)]
    overview = markdown_table(["", "most", *KINDS], lines, ["---", "---:", *["---"] * len(KINDS)])
    return "\n".join([overview, "", *(["Not there:", "", *listed, ""] if notes else [])])


def _reason(missing: dict[Kind, str], kind: Kind, notes: list[str]) -> str:
    if kind not in missing:
        return "–"
    if missing[kind] not in notes:
        notes.append(missing[kind])
    return f"– ({notes.index(missing[kind]) + 1})"


def score(shown: VerifiedRow) -> str:
    """Mean and interval, of the focal agents if there are any."""
    return f"{shown.mean:.2f} {interval(shown.low, shown.high, 2)}"


def illegal(shown: VerifiedRow) -> str:
    """Share of illegal answers, and the number of answers."""
    return f"{100 * shown.answers.share:.1f} % of {shown.answers.due:,}"


def remarked(shown: VerifiedRow) -> str:
    """The score, and the share of illegal answers if there were any."""
    return score(shown) + (f", {100 * shown.answers.share:.3g} % illegal" if shown.answers.illegal else "")


def _every(rows: Sequence[VerifiedRow], folder: Path) -> str:
    head = ["", "team", "score", "illegal", "return", "share of most", "episodes", "tokens", "time", "dollars", "seed"]
    head += ["commit", "config"]
    rules = ["---"] * 3 + ["---:"] * 8 + ["---"] * 2
    lines = []
    for each in rows:
        row = each.row
        lines.append(
            [
                link(row.name, os.path.relpath(each.path, folder)),
                code(row.team, 80),
                score(each),
                illegal(each),
                f"{row.mean:.2f}",
                f"{each.share:.2f}",
                f"{row.n} ({row.tasks} x {row.samples})",
                tokens(each),
                duration(row.seconds),
                f"{row.cost.dollars:.4f}" if row.cost else "–",
                str(row.seed),
                code(row.commit),
                code(row.config),
            ]
        )
    return f"{markdown_table(head, lines, rules)}\n"


def tokens(shown: VerifiedRow) -> str:
    """Mean sampled tokens of an answer over the agents that sample any; a dash without one, and in scenarios."""
    if shown.row.scenario:
        return "–"
    counts = [count for count in shown.row.tokens.values() if count]
    return f"{sum(counts) / len(counts):.0f}" if counts else "–"
