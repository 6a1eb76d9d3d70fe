"""The `palaver` command: its sub-commands and their error handling."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import palaver
from palaver.cli.commands import (
    arena,
    compare,
    credit,
    demo,
    doctor,
    envs,
    evaluate,
    leaderboard,
    play,
    report,
    rescore,
    serve,
    train,
    view,
)
from palaver.cli.groups import battles, bench, clone, curriculum, judge, ladder, showdown
from palaver.cli.output import fail, quiet
from palaver.core import PalaverError
from palaver.utils.run_folder import DiskErrorContext

HELP = """Multi-agent text environments, language-model agents, and the trainers that teach them.

[bold]A first look[/bold]

[cyan]palaver envs[/cyan]  [dim]# what can be played[/dim]

[cyan]palaver play arxiv-v0 --team tiny[/cyan]  [dim]# watch one episode[/dim]

[cyan]palaver train arxiv-magrpo[/cyan]  [dim]# train two small agents, minutes on a laptop[/dim]

[cyan]palaver report runs/FOLDER[/cyan]  [dim]# the page and the curve of a run[/dim]

A mistake in a name, a key or a file ends with one line and exit code 2, before any work; so does a full disk.
"""


class Commands(TyperGroup):
    """Command group: a user error is one line on stderr and exit code 2, Ctrl-C exit code 130; others are defects."""

    def invoke(self, ctx: Any) -> Any:
        """Run the sub-command."""
        quiet()
        try:
            with DiskErrorContext("give the same command again, with --resume where it has one"):
                return super().invoke(ctx)
        except PalaverError as error:
            fail(str(error))
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            fail("interrupted")
            raise typer.Exit(130) from error


app = typer.Typer(
    name="palaver",
    cls=Commands,
    help=HELP,
    rich_markup_mode="rich",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"palaver {palaver.__version__}")
        raise typer.Exit


@app.callback()
def root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    """The options of `palaver` itself."""


COMMANDS = (
    demo,
    envs,
    play,
    train,
    evaluate,
    credit,
    rescore,
    leaderboard,
    arena,
    battles,
    clone,
    curriculum,
    report,
    view,
    compare,
    doctor,
    bench,
    showdown,
    ladder,
    serve,
    judge,
)
for module in COMMANDS:
    module.register(app)


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point. Always ends in `SystemExit`."""
    app(args=None if arguments is None else list(arguments), prog_name="palaver")
