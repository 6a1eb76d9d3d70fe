"""One record of a table of results, shown in a terminal, in Markdown or as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import rich.table
from rich.text import Text

from palaver.markdown import markdown_table, prose


@dataclass(frozen=True)
class Table:
    """A table of text.

    Attributes:
        title: heading.
        note: one line on what the numbers are.
        head: names of the columns.
        rows: as many cells as columns each.
        right: indices of the columns of numbers, which are aligned to the right.
        bold: print the first column, of names, in bold.
    """

    title: str = ""
    note: str = ""
    head: Sequence[str] = ()
    rows: Sequence[Sequence[Any]] = ()
    right: Collection[int] = ()
    bold: bool = False

    def markdown(self) -> str:
        """Return a section with heading, note and table, all escaped."""
        return f"## {prose(self.title)}\n\n{prose(self.note)}\n\n{self.grid()}\n"

    def grid(self) -> str:
        """Return the table alone in Markdown, all cells escaped."""
        head, *rows = ([prose(cell) for cell in row] for row in (self.head, *self.rows))
        if self.bold:
            rows = [[f"**{name}**", *cells] for name, *cells in rows]
        return markdown_table(head, rows, ["---:" if n in self.right else "---" for n in range(len(head))])

    def rich(self) -> rich.table.Table:
        """Return the table for a terminal; further rows may be added to it."""
        grid = rich.table.Table(
            title=self.title or None,
            title_justify="left",
            title_style="bold",
            header_style="dim",
            box=None,
            pad_edge=False,
        )
        for n, name in enumerate(self.head):
            style = "bold" if self.bold and n == 0 else None
            grid.add_column(name, justify="right" if n in self.right else "left", style=style, overflow="fold")
        for row in self.rows:
            grid.add_row(*(Text(str(cell)) for cell in row))
        return grid

    def csv(self) -> str:
        """Return the table as CSV with a header, floats rounded to six places."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(self.head)
        writer.writerows([round(cell, 6) if isinstance(cell, float) else cell for cell in row] for row in self.rows)
        return buffer.getvalue()
