"""`palaver results`: work on episodes and runs that exist."""

from __future__ import annotations

import typer

from palaver.cli.groups import analyse, rescore

HELP = """Score stored episodes again, and analyse the credit of a run.

[bold]Examples[/bold]

[cyan]palaver results rescore runs/FOLDER/episodes/eval-000130.jsonl gated=false[/cyan]

[cyan]palaver results analyse runs/FOLDER[/cyan]
"""


def register(parent: typer.Typer) -> None:
    """Add the group."""
    app = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode="rich")
    for module in (rescore, analyse):
        module.register(app)
    parent.add_typer(app, name="results")
