"""`palaver report`: the page and the figure of a run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from palaver.cli import options
from palaver.cli.output import say
from palaver.core import need

HELP = """Write the report of a run, or lay several over each other.

[bold]Examples[/bold]

[cyan]palaver report runs/FOLDER[/cyan]

[cyan]palaver report runs/FOLDER --out page[/cyan]  [dim]# its page elsewhere[/dim]

[cyan]palaver report runs/seed-0 runs/seed-1 --out runs[/cyan]  [dim]# comparison.html and .png there[/dim]

Works on runs that were interrupted or are still going on.
"""


def report(
    folders: Annotated[list[Path], typer.Argument(metavar="FOLDER", help="Run folders.")],
    out: Annotated[
        Path | None, options.out_folder("Of the pages and figures.", "that of the run, or where several lie")
    ] = None,
    samples: Annotated[int, typer.Option(min=0, help="Tasks shown before and after.")] = 4,
) -> None:
    """Write the page and the figure of a run."""
    from palaver.benchmarks.reports.run_folder import read

    need("a report", "train", "jinja2", "matplotlib")
    runs = [read(folder) for folder in folders]  # finds a mistake in the last name before the first page is written
    from palaver.benchmarks.reports.run_report.page import CURVE, compare, write

    if len(runs) > 1:
        page = compare(runs, out or Path(os.path.commonpath([folder.resolve().parent for folder in folders])))
        say(f"{page}\n{page.with_suffix('.png')}")
    else:
        page = write(runs[0], samples, out)
        say(f"{page}\n{page.with_name(CURVE)}")
