"""Word lists for the echo game."""

from __future__ import annotations

from pathlib import Path

from palaver.core import TaskError
from palaver.envs.base.tasks import Task, read_tasks
from palaver.envs.echo import rules

SAMPLE = Path(__file__).with_name("sample.jsonl")


def load(source: str | Path, agents: int) -> tuple[Task, ...]:
    """Tasks with `words`, a text of words parted by spaces, one for each agent in order.

    `id` names a task.

    Raises:
        TaskError: see `palaver.envs.base.tasks.load_tasks`.
    """

    def check(task: Task) -> None:
        words = task["words"].split()
        if len(words) < agents or not all(map(rules.first_word, words)):
            raise TaskError(f"task {task.id!r}: the field 'words' needs a word for each of {agents} players")

    tasks, _ = read_tasks(source, check, sample=SAMPLE, fields={"words": str})
    return tasks
