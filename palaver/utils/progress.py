"""The progress bar of long commands."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)


class Bar(Progress):
    """Live bar of one task: label, bar, count, the text `shown`, elapsed and remaining time.

    Args:
        label: printed before the bar.
        console: where it is drawn.
        total: steps; None if they are not known yet.
        settings: of `rich.progress.Progress`.
    """

    def __init__(self, label: str, console: Console, total: int | None = None, **settings: Any) -> None:
        columns = (BarColumn(bar_width=30), MofNCompleteColumn(), TextColumn("{task.fields[shown]}"))
        times = (TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn())
        super().__init__(TextColumn("{task.description}"), *columns, *times, console=console, **settings)
        self.task = self.add_task(label, total=total, shown="")


class NotebookBar(Bar):
    """Bar that a notebook shows without other packages; rich's own way needs ipywidgets."""

    _cell: Any = None  # its display

    def start(self) -> None:
        """Show the bar."""
        if not (self.disable or self.console.quiet):
            from IPython.display import display

            self._cell = display(self, display_id=True)

    def update(self, task_id: TaskID, **changes: Any) -> None:
        """Change fields of the task, as in `rich.progress.Progress.update`."""
        super().update(task_id, **changes)
        if self._cell is not None:
            self._cell.update(self)
