"""The command of this folder."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from palaver.benchmarks.docs import comparison, demo, lab, layout
from palaver.benchmarks.docs.parts import filled
from palaver.benchmarks.leaderboard.board import read_board
from palaver.benchmarks.leaderboard.read import read
from palaver.benchmarks.leaderboard.table import markdown
from palaver.core import PalaverError
from palaver.envs.pages import renew

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
BOARD = "docs/leaderboard/leaderboard.html"
PARTS: Mapping[str, Callable[[Path], dict[str, str]]] = {
    "lab.md": lab.parts,
    "comparison.md": comparison.parts,
    "demo.md": demo.parts,
    "layout.md": layout.parts,
}


def wanted() -> dict[Path, str]:
    """Return each page generated from the stored files.

    Raises:
        CheckpointError, ConfigError: stored files are missing or cannot be read.
    """
    pages = {
        DOCS / name: filled((DOCS / name).read_text(encoding="utf-8"), parts(DOCS / "runs"))
        for name, parts in PARTS.items()
    }
    board = DOCS / "leaderboard"
    return {**pages, ROOT / "LEADERBOARD.md": markdown(read(board / "rows"), read_board(), BOARD, ROOT)}


def main(arguments: list[str]) -> int:
    """Update the pages, or with `--check` compare them; returns the exit code."""
    try:
        return renew(wanted(), "--check" in arguments, "python -m palaver.benchmarks.docs")
    except PalaverError as error:
        print(error, file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
