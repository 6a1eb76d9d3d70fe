"""Columns of the progress bars of long commands."""

from __future__ import annotations

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    ProgressColumn,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


def progress_columns(label: str) -> tuple[ProgressColumn, ...]:
    """Columns of a progress bar.

    They are label, bar, count, the field `shown` of the task, elapsed and remaining time.
    """
    return (
        TextColumn(label),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TextColumn("{task.fields[shown]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
