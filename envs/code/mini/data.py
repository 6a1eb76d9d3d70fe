"""Task files of `coding-mini-v0`: rows name the filter, map and aggregate of a problem."""

from __future__ import annotations

from pathlib import Path

from palaver.core import TaskError, did_you_mean
from palaver.envs.base.tasks import Task, read_tasks
from palaver.envs.code.mini.family import AGGREGATES, FILTERS, MAPS, Combination
from palaver.envs.code.problems import CodeProblem, Problems
from palaver.envs.code.sandbox import check_tests
from palaver.text import one_line

SAMPLE = Path(__file__).with_name("sample.jsonl")
ENTRY_POINT = "f"
_PARTS = {"filter": FILTERS, "map": MAPS, "aggregate": AGGREGATES}


def load(source: str | Path) -> tuple[tuple[Task, ...], Problems]:
    """Tasks with the fields `filter`, `map`, `aggregate` and `task_id`, and their problems.

    Raises:
        TaskError: no task can be used; see `palaver.envs.base.tasks.load_tasks` for the others.
    """
    fields = dict.fromkeys(_PARTS, str)
    tasks, problems = read_tasks(
        source, lambda task: _problem(task, source), sample=SAMPLE, fields=fields, id_field="task_id"
    )
    return tasks, Problems(problems)


def _problem(task: Task, source: str | Path) -> CodeProblem:
    for field, pieces in _PARTS.items():
        if task[field] not in pieces:
            location = one_line(f"{source}, task {task.id!r}")
            raise TaskError(f"{location}: there is no {field} {task[field]!r:.40}.{did_you_mean(task[field], pieces)}")
    combination = Combination(task["filter"], task["map"], task["aggregate"])
    tests = combination.tests()
    total = len(check_tests(tests, ENTRY_POINT))
    return CodeProblem(combination.text, ENTRY_POINT, tests, preamble=(), total=total)
