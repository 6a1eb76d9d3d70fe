"""The computed table of `docs/maths.md`, from the results kept in `docs/runs/maths`.

`python -m palaver.benchmarks.experiments.reasoning.page` rewrites it; `--check` exits with code 1 if it is outdated.
The prose around it is written by hand.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

from palaver.benchmarks.experiments.reasoning.results import load
from palaver.benchmarks.experiments.reasoning.table import markdown
from palaver.envs.pages import renew

DOCS = Path(__file__).resolve().parents[3] / "docs"
PAGE, KEPT = DOCS / "maths.md", DOCS / "runs" / "maths"
_PART = re.compile(r"(<!-- computed: table -->\n).*?(<!-- end -->)", re.DOTALL)


def filled(text: str) -> str:
    """Return the page with its table updated.

    Raises:
        CheckpointError: there are no stored results.
    """
    table = markdown(load(KEPT))
    return _PART.sub(lambda match: f"{match[1]}{table}\n{match[2]}", text)


def main(arguments: list[str]) -> int:
    """Write the page, or with `--check` compare it; returns the exit code."""
    wanted = {PAGE: filled(PAGE.read_text(encoding="utf-8"))}
    return renew(wanted, "--check" in arguments, "python -m palaver.benchmarks.experiments.reasoning.page")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
