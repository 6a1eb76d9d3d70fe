"""Wordings: the sentences in which a game is put to its players."""

from __future__ import annotations

from pathlib import Path

from palaver.core import TaskError
from palaver.envs.base.tasks import Task, read_tasks
from palaver.text import one_line

SAMPLE = Path(__file__).with_name("sample.jsonl")


def load(source: str | Path) -> tuple[Task, ...]:
    """Tasks with `wording`, a text, and `order`.

    `order` is the number of places by which the list of actions is rotated, 0 if left out.

    Raises:
        TaskError: no row can be used; see `palaver.envs.base.tasks.load_tasks` for the others.
    """
    tasks, orders = read_tasks(source, _order, sample=SAMPLE, fields={"wording": str})
    return tuple(Task(task.id, {**task.data, "order": orders[task.id]}) for task in tasks)


def _order(task: Task) -> int:
    given = task.data.get("order")
    if given in (None, ""):
        return 0
    text = str(given) if isinstance(given, int | str) and not isinstance(given, bool) else ""  # csv knows texts alone
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise TaskError(f"task {task.id!r}: the field 'order' must be a whole number, got {one_line(repr(given), 60)}")
    return int(text)
