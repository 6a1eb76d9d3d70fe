"""The `palaver` command: its sub-commands and their error handling."""

from __future__ import annotations

import re
import sys
from collections import UserDict
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import palaver
from palaver import plugins
from palaver.core import PalaverError

HELP = """Multi-agent text environments, language-model agents, and their trainers.

\b
First steps:
  palaver envs                       # list the environments
  palaver play arxiv-v0 --team tiny  # play one episode
  palaver train arxiv-magrpo         # train two small agents, minutes on a laptop
  palaver report runs/FOLDER         # page and learning curve of a run

A mistake in a name, a key or a file ends with one line and exit code 2 before any work; so does a full disk.
"""


GROUPS = ("leaderboard", "results", "export", "experiment", "judge", "pokemon", "bench")
COMMANDS = (
    *("demo", "envs", "play", "train", "evaluate", "arena", "compare", "report", "view", "serve"),
    *("doctor", *GROUPS),
)


def module(name: str) -> str:
    """Return the module of a command, relative to `palaver.cli`."""
    return f"{'groups' if name in GROUPS else 'commands'}.{name}"


class LazyCommands(UserDict[str, Any]):
    """Name -> command; the module of a command is imported when the command is looked up.

    The module of a group has it as `app`; that of another command has a function of its name, and the text `HELP`.
    """

    def __init__(self) -> None:
        super().__init__(dict.fromkeys(COMMANDS))

    def __getitem__(self, name: str) -> Any:
        if self.data[name] is None:
            source = import_module(f"palaver.cli.{module(name)}")
            parent = typer.Typer()
            parent.callback()(lambda: None)
            if name in GROUPS:
                parent.add_typer(source.app, name=name)
            else:
                parent.command(name, help=source.HELP)(getattr(source, name))
            self.data |= getattr(typer.main.get_command(parent), "commands", {})
        return self.data[name]


def summary(name: str) -> str:
    """Return the first line of a command's help without importing its module."""
    source = Path(__file__).parent.joinpath(*module(name).split(".")).with_suffix(".py").read_text(encoding="utf-8")
    line = re.search(r'^HELP = """(.*)$', source, re.MULTILINE)
    return line.group(1) if line else ""


class Commands(TyperGroup):
    """Command group: a user error is one line on stderr and exit code 2, Ctrl-C exit code 130.

    Other errors are defects.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.commands = LazyCommands()

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - the signature of click
        """Return the names in the order of `COMMANDS`."""
        return list(self.commands)

    def format_commands(self, ctx: Any, formatter: Any) -> None:  # noqa: ARG002 - the signature of click
        """Write the list of commands with their summaries, importing none."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary(name)) for name in COMMANDS])

    def invoke(self, ctx: Any) -> Any:
        """Run the sub-command."""
        from palaver.cli.output import print_error, quiet
        from palaver.utils.run_folder import DiskErrorContext

        quiet()
        try:
            with DiskErrorContext("repeat the command, with --resume where it has one"):
                return super().invoke(ctx)
        except PalaverError as error:
            print_error(str(error))
            raise typer.Exit(2) from error
        except KeyboardInterrupt as error:
            print_error("interrupted")
            raise typer.Exit(130) from error


app = typer.Typer(
    name="palaver",
    cls=Commands,
    help=HELP,
    rich_markup_mode=None,  # plain text: rich takes longer to import than all else that the list of commands needs
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
    trust: Annotated[
        bool, typer.Option(plugins.TRUST, help="Load code (module:attribute) that recipes, runs and rows name.")
    ] = False,
) -> None:
    """The options of `palaver` itself."""


def main(arguments: Sequence[str] | None = None) -> None:
    """The entry point. Always ends in `SystemExit`."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    with plugins.restricted(given):
        app(args=[argument for argument in given if argument != plugins.TRUST], prog_name="palaver")
