"""The leaderboard as one static page, and a page of sample episodes for each row.

The board's script is inlined and named by its hash in the page's own content policy, so that no other script runs and
nothing is loaded from elsewhere; sample pages run none at all. Model text is escaped and cleaned.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from palaver.benchmarks.leaderboard.read import BoardRows, VerifiedRow
from palaver.benchmarks.leaderboard.table import illegal, score, tokens
from palaver.benchmarks.reports import html as pages
from palaver.benchmarks.reports.summary import duration
from palaver.core import ConfigError, Episode, Turn
from palaver.text import clean, one_line
from palaver.utils.run_folder import replace_text

HERE = Path(__file__).resolve().parent
PAGE, SAMPLES = "leaderboard.html", "episodes"
MAX_TURNS, MAX_PROMPT, MAX_ANSWER = 4, 2000, 3000  # of a sample: turns, characters of a prompt and of an answer


@dataclass(frozen=True)
class BoardBar:
    """Position of a score between the floor of its board and the maximum return, in per cent."""

    mean: float
    low: float
    high: float


def write(board: BoardRows, folder: Path) -> Path:
    """Write the page and the samples into `folder`; returns the page's path.

    Raises:
        ConfigError: something cannot be written.
    """
    try:
        (folder / SAMPLES).mkdir(parents=True, exist_ok=True)
        for row in board.rows:
            replace_text(folder / SAMPLES / f"{row.row.name}.html", sample_page(row))
        replace_text(folder / PAGE, board_page(board, folder))
    except OSError as error:
        raise ConfigError(f"cannot write the page into {str(folder)!r}: {error}") from error
    return folder / PAGE


def board_page(board: BoardRows, folder: Path) -> str:
    """HTML of the board, to be written into `folder`."""
    script = (HERE / "sort.js").read_text(encoding="utf-8")
    rows = [
        {
            "shown": row,
            "row": row.row,
            "score": score(row),
            "bar": bar(row, board.rows),
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
        "script_hash": pages.content_hash(script),
        "envs": _different(row.row.env for row in board.rows),
        "labels": _different(row.row.label for row in board.rows),
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


def sample_page(row: VerifiedRow) -> str:
    """HTML of two episodes of a row."""
    first, middle = row.samples
    episodes = [_episode(episode) for episode in ((first,) if first is middle else (first, middle))]
    values = {"shown": row, "row": row.row, "score": score(row), "illegal": illegal(row), "episodes": episodes}
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
                "said": clean(completion.text, MAX_ANSWER),
                "reward": turn.rewards.get(agent, 0.0),
                "parts": {one_line(name, 40): value for name, value in turn.components.get(agent, {}).items()},
            }
            for agent, completion in turn.completions.items()
        ],
        "reason": one_line(turn.reason, 400),
    }


def _different(texts: Iterable[str]) -> list[str]:
    return sorted(set(texts))
