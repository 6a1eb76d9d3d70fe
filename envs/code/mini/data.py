"""Problems of the family, by the names of their parts."""

from __future__ import annotations

from pathlib import Path

from palaver.core import TaskError, nearest
from palaver.envs.base.tasks import Task, read_tasks
from palaver.envs.code.answers import Part
from palaver.envs.code.mini.family import AGGREGATES, FILTERS, MAPS, Combination
from palaver.envs.code.problems import CodeProblem, Problems
from palaver.envs.code.sandbox import check_tests
from palaver.text import one_line

SAMPLE = Path(__file__).with_name("sample.jsonl")
ENTRY_POINT = "f"
_PARTS = {"filter": FILTERS, "map": MAPS, "aggregate": AGGREGATES}
_NOTHING: tuple[Part, ...] = ()


def load(source: str | Path) -> tuple[tuple[Task, ...], Problems]:
    """Tasks with `filter`, `map` and `aggregate`, names of the family's parts.

    `task_id` names a task.

    Raises:
        TaskError: no task can be used; see `palaver.envs.base.tasks.load_tasks` for the others.
    """
    fields = dict.fromkeys(_PARTS, str)
    tasks, problems = read_tasks(
        source, lambda task: _problem(task, source), sample=SAMPLE, fields=fields, id_field="task_id"
    )
    return tasks, Problems(problems)


def _problem(task: Task, source: str | Path) -> CodeProblem:
    for field, known in _PARTS.items():
        if task[field] not in known:
            location = one_line(f"{source}, task {task.id!r}")
            raise TaskError(f"{location}: there is no {field} {task[field]!r:.40}.{nearest(task[field], known)}")
    combination = Combination(*(task[field] for field in _PARTS))
    tests = combination.tests()
    return CodeProblem(combination.text, ENTRY_POINT, tests, _NOTHING, len(check_tests(tests, ENTRY_POINT)))
