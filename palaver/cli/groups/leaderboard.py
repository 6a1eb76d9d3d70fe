"""`palaver leaderboard`: result rows as a table and a page, and rows of others."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text
from typer.core import TyperGroup

from palaver.cli import options
from palaver.cli.output import count, note, print_error, say
from palaver.core import ConfigError, PalaverError, need

HELP = """Write the leaderboard from result rows, or measure them.

[bold]Examples[/bold]

[cyan]palaver leaderboard[/cyan]  [dim]# the rows that are kept in docs/leaderboard/rows[/dim]

[cyan]palaver leaderboard rows --out board[/cyan]  [dim]# your own, as palaver evaluate --row rows makes them[/dim]

[cyan]palaver leaderboard --measure[/cyan]  [dim]# measure the whole board first; resumes where it stopped[/dim]

[cyan]palaver leaderboard --measure --only arxiv-v0 --only arxiv-strangers-v2[/cyan]

[cyan]palaver leaderboard submit rows/arxiv-v0--mine.json --submitter "Ann Lee"[/cyan]  [dim]# adds the author[/dim]

[cyan]palaver leaderboard verify submissions/arxiv-v0--mine.json[/cyan]  [dim]# replay its episodes[/dim]

A row without a seed, an interval, or a commit or wheel, or whose episodes contradict it, is refused.
"""
SUBMIT = """Add the author to a row and collect it with its episodes.

[bold]Example[/bold]

[cyan]palaver leaderboard submit rows/arxiv-v0--mine.json --submitter "Ann Lee" --model Qwen3-0.6B --size 0.6B[/cyan]

Both files in the folder are what is handed in; the row is checked as the leaderboard checks it.
"""
VERIFY = """Check submitted rows, and replay their recorded answers.

[bold]Example[/bold]

[cyan]palaver leaderboard verify submissions/*.json[/cyan]

A team is never loaded or run, and no code is loaded that a row names. Exit code 1 if a row is refused.
"""
ROWS, TABLE = Path("docs/leaderboard/rows"), "LEADERBOARD.md"


class _Rows(TyperGroup):
    """Command group in which ROWS and options alone stand for `write`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments."""
        named = args and (args[0] in self.commands or args[0] in ctx.help_option_names)
        return list(super().parse_args(ctx, args if named else ["write", *args]))


app = options.group(cls=_Rows, help=HELP, no_args_is_help=False)


@app.command(help=HELP)
def write(
    folder: Annotated[Path, typer.Argument(metavar="ROWS", help="The folder of the rows.")] = ROWS,
    out: Annotated[Path | None, options.out_folder("Of the table and the pages.", "where ROWS lies")] = None,
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
    """Write the table and the page."""
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


@app.command(help=SUBMIT)
def submit(
    row: Annotated[Path, typer.Argument(help="A row, as palaver evaluate --row FOLDER wrote it.")],
    submitter: Annotated[str, typer.Option(help="Your name or address, as it is to be shown.")],
    model: Annotated[str, typer.Option(help="What the team is made of.")] = "",
    size: Annotated[str, typer.Option(help="Number of parameters.")] = "",
    out: Annotated[Path, options.out_folder("Of the submission.")] = Path("submissions"),
) -> None:
    """Add the author to a row."""
    from palaver.benchmarks.leaderboard import submissions

    path = submissions.submit(row, out, submitter=submitter, model=model, size=size)
    say(Text("row  ", style="dim"), str(path))
    note(f"check it as its reader will: palaver leaderboard verify {path}")


@app.command(help=VERIFY)
def verify(files: Annotated[list[Path], typer.Argument(metavar="ROW...", help="Rows.")]) -> None:
    """Check submitted rows."""
    from palaver.benchmarks.leaderboard import submissions

    refused = 0
    for path in files:
        try:
            row, replayed = submissions.verify(path)
        except PalaverError as error:
            refused += 1
            print_error(f"{path.name} is refused: {error}")
        else:
            say(Text(path.name, style="bold"), f"{row.mean:.3f} of {row.most:g}: {replayed}")
    if refused:
        raise typer.Exit(1)
