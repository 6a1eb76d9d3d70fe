"""Questions and answers: where they come from and which fields they need."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from palaver.core import ConfigError, TaskError
from palaver.envs.base.arguments import choice
from palaver.envs.base.tasks import Generate, Task, is_generated, read_tasks
from palaver.envs.maths import answers
from palaver.envs.maths.problems import DIFFICULTIES, Difficulty, rows
from palaver.text import one_line

SAMPLE = Path(__file__).with_name("sample.jsonl")  # of `gsm8k-v0`: word problems written for this project
FIELDS = {"question": str, "answer": str}


def load(source: str | Path, sample: Path | Generate) -> tuple[Task, ...]:
    """Tasks with `question` and `answer`.

    `answer` ends with `#### ` and the right answer, or is it; `id` names a task.

    Raises:
        TaskError: no answer holds one; see `palaver.envs.base.tasks.load_tasks` for the others.
    """

    def check(task: Task) -> None:
        if not answers.gold(task["answer"]).key:
            location = one_line(f"{source}, task {task.id!r}")
            raise TaskError(
                f"{location}: the field 'answer' holds no answer after ####: {one_line(task['answer'], 80)!r}"
            )

    tasks, _ = read_tasks(source, check, sample=sample, fields=FIELDS)
    return tasks


def load_made(source: str | Path, difficulty: Difficulty | None) -> tuple[Task, ...]:
    """The same, where `sample` and `generated:SEED:COUNT` are made here.

    Raises:
        ConfigError: a difficulty that does not exist, or one for questions that are not made here.
        TaskError: as `load`.
    """
    if difficulty is not None:
        choice("difficulty", difficulty, DIFFICULTIES)
        if not is_generated(source):
            raise ConfigError("difficulty is for tasks that are made here: 'sample' or 'generated:SEED:COUNT'")
    return load(source, partial(rows, difficulty=difficulty or "medium"))
