"""`palaver leaderboard`: result rows as a table and a page."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from palaver.cli.output import count, note, say
from palaver.core import ConfigError, need

HELP = """Write the leaderboard from result rows, or measure them.

[bold]Examples[/bold]

[cyan]palaver leaderboard[/cyan]  [dim]# the rows that are kept in docs/leaderboard/rows[/dim]

[cyan]palaver leaderboard rows --out board[/cyan]  [dim]# your own, as palaver evaluate --row rows makes them[/dim]

[cyan]palaver leaderboard --measure[/cyan]  [dim]# measure the whole board first; resumes where it stopped[/dim]

[cyan]palaver leaderboard --measure --only arxiv-v0 --only arxiv-strangers-v2[/cyan]

A row without a seed, an interval or a commit, or whose episodes contradict it, is refused.
"""
ROWS, TABLE = Path("docs/leaderboard/rows"), "LEADERBOARD.md"


def leaderboard(
    folder: Annotated[Path, typer.Argument(metavar="ROWS", help="The folder of the rows.")] = ROWS,
    out: Annotated[Path | None, typer.Option(help="Folder of the page.", show_default="where ROWS lies")] = None,
    table: Annotated[
        Path | None, typer.Option(help="The table in Markdown.", show_default="OUT/LEADERBOARD.md")
    ] = None,
    measure: Annotated[
        bool, typer.Option("--measure", help="Measure the rows of the board that are missing, before.")
    ] = False,
    only: Annotated[
        list[str] | None, typer.Option(help="With --measure: this environment or scenario; repeatable.")
    ] = None,
    work: Annotated[Path, typer.Option(help="With --measure: working folder of the rows.")] = Path("runs/leaderboard"),
    board: Annotated[
        Path | None, typer.Option(help="With --measure: another list in YAML.", show_default="the shipped one")
    ] = None,
) -> None:
    """Show result rows."""
    from palaver.benchmarks.leaderboard.board import read_board

    need("a leaderboard", "train", "jinja2", "matplotlib")
    out = out or folder.parent
    table = table or (Path(TABLE) if folder == ROWS else out / TABLE)
    if table.parent != out and not table.parent.is_dir():
        raise ConfigError(f"--table: there is no folder {str(table.parent)!r}")
    entries = read_board(board)
    if measure:
        from palaver.benchmarks.leaderboard.board import measure_all, publish

        publish(measure_all(entries, work, note, only or ()), folder)
    from palaver.benchmarks.leaderboard import page
    from palaver.benchmarks.leaderboard.page import markdown
    from palaver.benchmarks.leaderboard.read import read
    from palaver.utils.run_folder import replace_text

    results = read(folder)
    for line in results.refused:
        note(line)
    page_path = page.write(results, out)
    address = os.path.relpath(page_path, table.parent)
    replace_text(table, markdown(results, entries, address, table.parent))
    say(Text("table ", style="dim"), str(table))
    say(Text("page  ", style="dim"), str(page_path))
    say(Text(f"{count(len(results.rows), 'row')}, {len(results.refused)} refused", style="dim"))
