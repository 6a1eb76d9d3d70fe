"""The record of a table, in its three forms."""

from __future__ import annotations

import io

from rich.console import Console

from palaver.utils.tables import Table

TABLE = Table("Wins_", "a * b", ["name", "n"], [["x|*y*", 0.12345678], ["[red]z", 2]], right=[1], bold=True)


def test_markdown_escapes_text_and_aligns_numbers():
    assert TABLE.markdown().splitlines() == [
        "## Wins\\_", "", "a \\* b", "",
        "| name | n |",
        "| --- | ---: |",
        "| **x\\|\\*y\\*** | 0.12345678 |",
        "| **[red]z** | 2 |",
    ]  # fmt: skip


def test_a_terminal_shows_text_without_markup():
    console = Console(file=io.StringIO(), width=40)
    console.print(TABLE.rich())
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert lines == ["Wins_", "name             n", "x|*y*   0.12345678", "[red]z           2"]


def test_csv_rounds_floats():
    assert TABLE.csv() == "name,n\nx|*y*,0.123457\n[red]z,2\n"
