"""Tables of results, independent of where they are shown: terminal, page, Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from palaver.markdown import markdown_table, prose


@dataclass(frozen=True)
class Table:
    """A titled table.

    Attributes:
        title: heading.
        note: one line on what the numbers are.
        head: names of the columns.
        rows: as many cells as columns each.
    """

    title: str
    note: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]

    def markdown(self) -> str:
        """Return a section with the table, all cells escaped."""
        head, *rows = ([prose(cell) for cell in row] for row in (self.head, *self.rows))
        return f"## {prose(self.title)}\n\n{self.note}\n\n{markdown_table(head, rows)}\n"
