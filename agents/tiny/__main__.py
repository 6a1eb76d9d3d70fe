"""Build a tiny model and print its examination.

`python -m palaver.agents.tiny MODULE:FUNCTION [--seed N]`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from rich.console import Console

from palaver.agents.tiny.build import checks, ensure
from palaver.core import PalaverError
from palaver.utils.tables import Table


def main() -> int:
    """The exit code: 0, or 2 if the model was refused."""
    parser = argparse.ArgumentParser(prog="python -m palaver.agents.tiny", description=__doc__)
    parser.add_argument(
        "demonstrations", help="module:function, for example palaver.envs.writing.arxiv.corpus:demonstrations"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--from-scratch", action="store_true", help="leave the shipped model aside")
    parser.add_argument("--cache", type=Path, help="where models are kept")
    arguments = parser.parse_args()
    try:
        folder = ensure(
            arguments.demonstrations, cache=arguments.cache, seed=arguments.seed, from_scratch=arguments.from_scratch
        )
    except PalaverError as error:
        Console(stderr=True).print(str(error), style="red", highlight=False, markup=False)
        return 2
    rows = [(check.name, f"{check.value:.4f}", f"{check.low:.4f} to {check.high:.4f}") for check in checks(folder)]
    console = Console()
    console.print(Table("tiny model", head=("check", "found", "accepted"), rows=rows).rich())
    console.print(str(folder), soft_wrap=True, highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
