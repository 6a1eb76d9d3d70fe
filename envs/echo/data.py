"""Word lists for the echo game."""

from __future__ import annotations

from pathlib import Path

from palaver.envs.tasks import Task, load_tasks

SAMPLE = Path(__file__).with_name("sample.jsonl")


def load(source: str | Path) -> tuple[Task, ...]:
    """Tasks with `words`, a text of words parted by spaces, one for each agent in order; `id` names a task.

    Raises:
        TaskError: see `palaver.envs.tasks.load_tasks`.
    """
    return load_tasks(source, sample=SAMPLE, fields={"words": str})
