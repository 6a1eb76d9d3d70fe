"""Posts: where they come from and which fields they need."""

from __future__ import annotations

from pathlib import Path

from palaver.envs.base.tasks import Generate, Task, load_tasks
from palaver.envs.writing.corpus import shipped_or

SAMPLE = Path(__file__).with_name("sample.jsonl")


def load(source: str | Path, generate: Generate) -> tuple[Task, ...]:
    """Posts in `prompt`.

    `id` names them where there is one (the public data has none), other fields are kept.

    Args:
        source: `sample`, `generated:SEED:COUNT`, a path, or `hf:NAME:SPLIT`.
        generate: makes rows from a count and a seed.

    Raises:
        TaskError: see `palaver.envs.base.tasks.load_tasks`.
    """
    sample = shipped_or(source, SAMPLE, generate)
    return load_tasks(source, sample=sample, fields={"prompt": str})
