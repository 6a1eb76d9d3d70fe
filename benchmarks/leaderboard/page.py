"""The leaderboard as one static page, and a page of sample episodes for each row.

The board's script is inlined and named by its hash in the page's own content policy, so that no other script runs and
nothing is loaded from elsewhere; sample pages run none at all. Model text is escaped and cleaned.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from palaver.benchmarks.leaderboard.board import KINDS, BoardEntry, Kind
from palaver.benchmarks.leaderboard.read import BoardRows, VerifiedRow, ranks
from palaver.benchmarks.reports import html as pages
from palaver.benchmarks.reports.inline import content_hash
from palaver.benchmarks.reports.palette import algorithm_look
from palaver.benchmarks.reports.summary import duration, interval
from palaver.core import ConfigError
from palaver.episodes import Episode, Turn
from palaver.markdown import code, link, markdown_table, prose
from palaver.text import clean, one_line
from palaver.trainers.config.loading import load
from palaver.utils.config import recipes
from palaver.utils.run_folder import replace_text
from palaver.utils.tool_calls import transcript

HERE = Path(__file__).resolve().parent
PAGE, SAMPLES = "leaderboard.html", "episodes"
BATTLE_ENV = "pokemon_v1"
BATTLES, MAX_BATTLES = "battles", 3  # of a row that can be replayed, the first ones
MAX_TURNS, MAX_PROMPT, MAX_ANSWER = 4, 2000, 3000  # of a sample: turns, characters of a prompt and of an answer


@dataclass(frozen=True)
class BoardBar:
    """Position of a score between the floor of its board and the maximum return, in per cent."""

    mean: float
    low: float
    high: float


def write(board: BoardRows, folder: Path) -> Path:
    """Write the page, samples and replays into `folder`; returns the page's path.

    Raises:
        ConfigError: something cannot be written.
    """
    try:
        (folder / SAMPLES).mkdir(parents=True, exist_ok=True)
        for row in board.rows:
            replace_text(folder / SAMPLES / f"{row.row.name}.html", sample_page(row, _write_battles(row, folder)))
        replace_text(folder / PAGE, board_page(board, folder))
    except OSError as error:
        raise ConfigError(f"cannot write the page into {str(folder)!r}: {error}") from error
    return folder / PAGE


def _write_battles(row: VerifiedRow, folder: Path) -> str:
    """Write the replays of a row's first battles; returns their path, "" if it has none."""
    if row.samples[0].env != BATTLE_ENV:
        return ""
    from palaver.benchmarks.viewer import page as viewer  # needs more than the board itself

    name = f"{BATTLES}/{row.row.name}.html"
    episodes = row.path.with_name(Path(row.row.episodes.file).name)
    viewer.write(episodes, folder / name, viewer.Choices(MAX_BATTLES, MAX_ANSWER, pictures=0))
    return name


def board_page(board: BoardRows, folder: Path) -> str:
    """HTML of the board, to be written into `folder`."""
    script = (HERE / "sort.js").read_text(encoding="utf-8")
    places = ranks(board.rows)
    rows = [
        {
            "shown": row,
            "row": row.row,
            "rank": places[row.row.name],
            "author": author(row),
            "code": code_of(row),
            "score": score(row),
            "bar": bar(row, board.rows),
            "color": bar_color(row.row.team),
            "tokens": tokens(row),
            "illegal": illegal(row),
            "time": duration(row.row.seconds),
            "file": os.path.relpath(row.path, folder),
            "sample": f"{SAMPLES}/{row.row.name}.html",
        }
        for row in board.rows
    ]
    values = {
        "rows": rows,
        "script": Markup(script),
        "script_hash": content_hash(script),
        "envs": sorted({row.row.env for row in board.rows}),
        "labels": sorted({row.row.label for row in board.rows}),
    }
    return pages.render(HERE, "leaderboard.html.j2", values)


def bar(row: VerifiedRow, rows: Sequence[VerifiedRow]) -> BoardBar:
    """Position of the score.

    The floor is 0, or the lowest end of an interval on the board if that is less.
    """
    floor = min([0.0, *(peer.low for peer in rows if peer.what == row.what)])
    span = max(row.most - floor, 1e-9)
    mean, low, high = (min(max(100 * (value - floor) / span, 0.0), 100.0) for value in (row.mean, row.low, row.high))
    return BoardBar(mean, low, high)


def bar_color(team: str) -> str:
    """Style variable of a bar: the colour of a recipe's algorithm, grey for all other teams."""
    recipe = team.removeprefix("recipe:")
    trained = team != recipe and recipe in recipes("run")
    return f"--s{algorithm_look(load(recipe).algorithm.name).color + 1}" if trained else "--muted"


def sample_page(row: VerifiedRow, battles_page: str = "") -> str:
    """HTML of two episodes of a row, with a link to its replays if there are any."""
    first, middle = row.samples
    episodes = [_episode(episode) for episode in ((first,) if first is middle else (first, middle))]
    values = {"shown": row, "row": row.row, "score": score(row), "illegal": illegal(row), "episodes": episodes}
    values["battles_page"] = battles_page
    return pages.render(HERE, "episodes.html.j2", values)


def _episode(episode: Episode) -> dict[str, Any]:
    return {
        "task": one_line(episode.task, 120),
        "team": {one_line(agent, 40): one_line(name, 120) for agent, name in episode.team.items()},
        "returns": {
            one_line(agent, 40): sum(turn.rewards[agent] for turn in episode.turns)
            for agent in (episode.turns[0].rewards if episode.turns else ())
        },
        "turns": [_turn(turn) for turn in episode.turns[:MAX_TURNS]],
        "more": max(0, len(episode.turns) - MAX_TURNS),
        "stop": episode.stop,
    }


def _turn(turn: Turn) -> dict[str, Any]:
    return {
        "number": turn.index + 1,
        "seats": [
            {
                "name": one_line(agent, 40),
                "told": clean(turn.observations.get(agent, ""), MAX_PROMPT),
                "said": clean(transcript(completion), MAX_ANSWER),
                "reward": turn.rewards.get(agent, 0.0),
                "parts": {one_line(name, 40): value for name, value in turn.components.get(agent, {}).items()},
            }
            for agent, completion in turn.completions.items()
        ],
        "reason": one_line(turn.reason, 400),
    }


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
    places = ranks(rows)
    head = (
        *(
            "",
            "rank",
            "team",
            "author",
            "score",
            "illegal",
            "return",
            "share of most",
            "episodes",
            "tokens",
            "time",
            "dollars",
            "seed",
        ),
        *("code", "config"),
    )
    rules = ["---", "---:", *["---"] * 3, *["---:"] * 8, *["---"] * 2]
    lines = []
    for verified in rows:
        row = verified.row
        lines.append(
            [
                link(row.name, os.path.relpath(verified.path, folder)),
                "-".join(map(str, dict.fromkeys(places[row.name]))),
                code(row.team, 80),
                prose(author(verified)),
                score(verified),
                illegal(verified),
                f"{row.mean:.2f}",
                f"{verified.share:.2f}",
                f"{row.n} ({row.tasks} x {row.samples})",
                tokens(verified),
                duration(row.seconds),
                f"{row.cost.dollars:.4f}" if row.cost else "–",
                str(row.seed),
                code(code_of(verified)),
                code(row.config),
            ]
        )
    return f"{markdown_table(head, lines, rules)}\n"


def author(row: VerifiedRow) -> str:
    """Submitter with model, size and date; a dash for rows of this project."""
    submission = row.row.submission
    if submission is None:
        return "–"
    about = ", ".join(filter(None, (submission.model, submission.size, submission.date)))
    return one_line(f"{submission.submitter} ({about})" if about else submission.submitter, 200)


def code_of(row: VerifiedRow) -> str:
    """Commit of the checkout, or version and hash of the wheel, that measured a row."""
    return row.row.commit or f"wheel {row.row.wheel}"


def tokens(row: VerifiedRow) -> str:
    """Mean sampled tokens of an answer over the agents that sample any.

    A dash if none does, and in scenarios.
    """
    if row.row.scenario:
        return "–"
    counts = [count for count in row.row.tokens.values() if count]
    return f"{sum(counts) / len(counts):.0f}" if counts else "–"
