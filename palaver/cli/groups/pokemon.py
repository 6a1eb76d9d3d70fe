"""`palaver pokemon`: simulator, server, recorded battles, and players cloned from them."""

from __future__ import annotations

import typer

from palaver.cli.groups import battles, clone, ladder, showdown

HELP = """Install the simulator; play on a server; clone battles.

[bold]Examples[/bold]

[cyan]palaver pokemon install[/cyan]  [dim]# the simulator, once[/dim]

[cyan]palaver pokemon ladder typed@1 --games 20[/cyan]  [dim]# on a Showdown server[/dim]

[cyan]palaver pokemon battles show battles/typed[/cyan]

[cyan]palaver pokemon clone battles/typed --out runs/student[/cyan]
"""


def register(parent: typer.Typer) -> None:
    """Add the group."""
    app = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode="rich")
    for module in (showdown, ladder, battles, clone):
        module.register(app)
    parent.add_typer(app, name="pokemon")
