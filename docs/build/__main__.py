"""Update every computed page, or check that all are current."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from docs.build import (
    algorithm_pages,
    comparison,
    demo,
    env_pages,
    exact_games,
    first_screen,
    games,
    gpu,
    guesses,
    lab,
    layout,
    maths,
    negotiation,
    self_play,
    workflow_pages,
)
from docs.build.parts import filled, renew
from palaver.benchmarks.leaderboard.board import read_board
from palaver.benchmarks.leaderboard.page import markdown
from palaver.benchmarks.leaderboard.read import read
from palaver.core import PalaverError

DOCS = Path(__file__).resolve().parents[1]
ROOT = DOCS.parent
BOARD = "docs/leaderboard/leaderboard.html"
PARTS: Mapping[str, Callable[[Path], dict[str, str]]] = {
    "lab.md": lab.parts,
    "maths.md": maths.parts,
    "comparison.md": comparison.parts,
    "demo.md": demo.parts,
    "benchmarks.md": gpu.parts,
    "layout.md": layout.parts,
    "textarena.md": games.parts,
    "games.md": exact_games.parts,
    "inference.md": guesses.parts,
    "self-play.md": self_play.parts,
    "negotiation.md": negotiation.parts,
}


def wanted() -> dict[Path, str]:
    """Return every computed page.

    Raises:
        CheckpointError, ConfigError: stored files are missing or cannot be read, or a page lacks a part.
    """
    pages = env_pages.wanted() | workflow_pages.wanted() | algorithm_pages.wanted()
    for name, parts in PARTS.items():
        pages[DOCS / name] = filled((DOCS / name).read_text(encoding="utf-8"), parts(DOCS / "runs"))
    readme = ROOT / "README.md"
    pages[readme] = filled(readme.read_text(encoding="utf-8"), first_screen.parts(DOCS / "runs"))
    board = read(DOCS / "leaderboard" / "rows")
    pages[ROOT / "LEADERBOARD.md"] = markdown(board, read_board(), BOARD, ROOT)
    return pages


def main(arguments: list[str]) -> int:
    """Update the pages, or with `--check` compare them; returns the exit code."""
    try:
        return renew(wanted(), "--check" in arguments, "python -m docs.build")
    except PalaverError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
