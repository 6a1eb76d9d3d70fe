"""Terminal output: consoles, tables, one-line errors, and silenced libraries."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from palaver.core import PalaverWarning
from palaver.text import one_line
from palaver.utils import tables

console = Console(highlight=False)
errors = Console(stderr=True, highlight=False)
WIDE = 160  # columns of a table that goes into a file

_QUIET_ENVIRONMENT = {
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_VERBOSITY": "error",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_NO_ADVISORY_WARNINGS": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}


def quiet() -> None:
    """Silence progress bars and warnings of libraries; print our own warnings as one line each.

    Settings of the user, in the environment or by `python -W`, take precedence.
    """
    for name, value in _QUIET_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
    if not sys.warnoptions:
        for category in (DeprecationWarning, FutureWarning, UserWarning):
            warnings.simplefilter("ignore", category)
        warnings.simplefilter("default", PalaverWarning)
        warnings.showwarning = _show_warning


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    note(f"note: {message}")


def print_error(message: str) -> None:
    """Print an error as one line on stderr."""
    line = Text.assemble(("error: ", "bold red"), one_line(message, 2000))
    errors.print(line, soft_wrap=True)


@contextmanager
def resumable(command: str) -> Iterator[None]:
    """Turn Ctrl-C into exit code 130 and a line with the command that resumes."""
    try:
        yield
    except KeyboardInterrupt as stop:
        print_error(f"interrupted; resume with: {command}")
        raise typer.Exit(130) from stop


def note(message: str) -> None:
    """Print information that needs no action as one dim line on stderr."""
    errors.print(Text(one_line(message, 2000), style="dim"), soft_wrap=True)


def say(*parts: str | Text) -> None:
    """Print text on stdout without markup or line breaks, so that paths can be copied."""
    console.print(*(Text(text) if isinstance(text, str) else text for text in parts), soft_wrap=True)


def count(n: int, noun: str) -> str:
    """Number and noun, with a plural s where needed: `1 word`, `2 words`."""
    return f"{n:,} {noun}" if n == 1 else f"{n:,} {noun}s"


def table(*columns: str, title: str | None = None, right: Iterable[str] = ()) -> Table:
    """Empty table with the given columns; those in `right` are right-aligned."""
    right_aligned = set(right)
    return tables.Table(
        title or "", head=columns, right=[n for n, c in enumerate(columns) if c in right_aligned]
    ).rich()


def print_tables(*results: tables.Table) -> None:
    """Print tables and their notes; names are not broken, and a file gets wide lines."""
    room = console if console.is_terminal else Console(file=console.file, highlight=False, width=WIDE)
    for result in results:
        grid = result.rich()
        grid.columns[0].no_wrap = True
        room.print(grid)
        say(Text(f"{result.note}\n", style="dim"))


def facts(pairs: Mapping[str, object] | Iterable[tuple[str, object]]) -> Table:
    """Table of names and values in two columns."""
    grid = Table.grid(padding=(0, 3))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(overflow="fold")
    for name, value in dict(pairs).items():
        grid.add_row(name, value if isinstance(value, Text) else Text(str(value)))
    return grid
