"""`palaver view`: episodes of a run, a file or recorded battles as one page for a browser."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from palaver.cli import options
from palaver.cli.output import count, note, say
from palaver.core import ConfigError, need

HELP = """Write a page of episodes or battles, to read in a browser.

[bold]Examples[/bold]

[cyan]palaver view runs/FOLDER --open[/cyan]

[cyan]palaver view episodes.jsonl.gz --out page.html[/cyan]  [dim]# as evaluate --out wrote them[/dim]

[cyan]palaver view battles/typed[/cyan]  [dim]# as arena --record wrote them[/dim]

[cyan]palaver view runs/FOLDER --live[/cyan]  [dim]# curves of a run that trains, until it ends or Ctrl-C[/dim]

The page is one file that loads nothing: agents in columns, rewards and components, differences in a group.
Battles are replayed by their seeds.
"""


def view(
    path: Annotated[
        Path,
        typer.Argument(metavar="RUN|EPISODES|BATTLES", help="Run folder, .jsonl, .jsonl.gz, or folder of battles."),
    ],
    out: Annotated[
        Path | None, options.out_file("The page.", "episodes.html in the folder, or next to the file")
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Open it in the browser.")] = False,
    most: Annotated[int, typer.Option(min=1, help="Episodes on the page; steps evenly apart are kept.")] = 2000,
    characters: Annotated[int, typer.Option(min=100, help="Of one text; a longer one is cut, with a mark.")] = 8000,
    pictures: Annotated[int, typer.Option(min=0, help="Pictures of turns, where there are any to draw.")] = 48,
    tests: Annotated[bool, typer.Option("--tests", help="Run programs again, list their tests.")] = False,
    live: Annotated[bool, typer.Option("--live", help="Serve the metrics of a run here while it trains.")] = False,
) -> None:
    """Write the page of a run's episodes."""
    need("the viewer", "train", "jinja2", "matplotlib")
    if live:
        _serve(path, out, open_page)
        return
    from palaver.benchmarks.viewer.page import Choices, write

    done = write(path, out, Choices(most, characters, pictures, tests))
    for message in done.notes:
        note(f"note: {message}")
    say(f"{done.path}  ({count(done.episodes, 'episode')}, {done.path.stat().st_size / 1e6:.1f} MB)")
    if open_page and not webbrowser.open(done.path.resolve().as_uri()):
        note(f"note: no browser could be opened; open {done.path} yourself")


def _serve(path: Path, out: Path | None, open_page: bool) -> None:
    """Serve the live page of a run; nothing is written."""
    from palaver.benchmarks.reports.live import serve_live

    if out is not None:
        raise ConfigError("--out and --live: a live page is served and not written; leave one of them out")

    def opened(address: str) -> None:
        say(f"{address}  (Ctrl-C ends it)")
        if open_page and not webbrowser.open(address):
            note("note: no browser could be opened; open the address yourself")

    note(serve_live(path, opened))
