"""Papers: where they come from and which fields they need."""

from __future__ import annotations

from pathlib import Path

from palaver.envs.tasks import Task, load_tasks

SAMPLE = Path(__file__).with_name("sample.jsonl")


def load(source: str | Path) -> tuple[Task, ...]:
    """Papers with `abstract_text`; `article_id` names them, `title` is optional, other fields are kept.

    Raises:
        TaskError: see `palaver.envs.tasks.load_tasks`.
    """
    return load_tasks(source, sample=SAMPLE, fields={"abstract_text": str}, id_field="article_id")
