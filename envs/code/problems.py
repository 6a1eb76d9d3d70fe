"""Problems: a prompt, the requested function and its tests.

They are read and checked before anything runs. Three public schemas are read: that of HumanEval and CoopHumanEval
(`prompt`, `entry_point`, `test` with a function `check(candidate)`), and the two of MBPP (`text` or `prompt`,
`test_list`, with `test_setup_code` or `test_imports`).
"""

from __future__ import annotations

import ast
import builtins
import keyword
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palaver.core import TaskError
from palaver.envs.base.tasks import Task, read_tasks
from palaver.envs.code import answers, context
from palaver.envs.code.answers import Part
from palaver.envs.code.programs import AUX
from palaver.envs.code.sandbox import TestsError, check_tests
from palaver.text import one_line


@dataclass(frozen=True, slots=True)
class CodeProblem:
    """One problem.

    Attributes:
        prompt: as the data set has it.
        entry_point: the requested function.
        tests: a function `check(candidate)`, or assertions that call the entry point.
        preamble: imports and helper functions that the prompt defines.
        total: how many assertions the tests hold.
    """

    prompt: str
    entry_point: str
    tests: str
    preamble: tuple[Part, ...]
    total: int

    def __deepcopy__(self, memo: dict[int, Any]) -> CodeProblem:
        return self

    @property
    def context(self) -> str:
        """The preamble as source: names that tests may need in addition to the candidate."""
        return "\n\n".join(part.source for part in self.preamble)


class Problems(dict[str, CodeProblem]):
    """Task id -> problem. Copies of an environment share it."""

    def __deepcopy__(self, memo: dict[int, Any]) -> Problems:
        return self


def load(source: str | os.PathLike[str], *, sample: Path, split: str) -> tuple[tuple[Task, ...], Problems]:
    """The tasks of `source`, and id -> problem.

    Args:
        source: as `palaver.envs.base.tasks.load_tasks` reads it; `task_id` names a task.
        sample: the file behind `sample`.
        split: of an `hf:` source that names none.

    Raises:
        TaskError: the source cannot be read, or no row of it is a problem: each lacks a field, has tests that are no
            Python or never call the entry point. The message names the first row.
    """
    tasks, problems = read_tasks(
        source, lambda task: problem(task, source), sample=sample, fields={}, id_field="task_id", split=split
    )
    return tasks, Problems(problems)


def problem(task: Task, source: object = "tasks") -> CodeProblem:
    """The problem of one task.

    Raises:
        TaskError: as `load`.
    """
    location = one_line(f"{source}, task {task.id!r}")
    if "test_list" in task.data and "test" not in task.data:
        prompt, entry_point, tests = _from_list(task, location)
    else:
        prompt, entry_point, tests = (_text(task, location, field) for field in ("prompt", "entry_point", "test"))
    solution = solution_of(task, prompt)
    if not entry_point.isidentifier() or keyword.iskeyword(entry_point) or entry_point == AUX:
        raise TaskError(
            f"{location}: the entry point {entry_point[:60]!r} is no name for the function that main writes"
        )
    tree = answers.parse(prompt) or answers.parse(f"{prompt.rstrip()}\n    pass\n")
    preamble = answers.definitions(tree, prompt) if tree else ()
    named = [name for part in preamble if part.kind == "function" for name in part.names]
    if named and entry_point not in named:
        raise TaskError(
            f"{location}: the prompt defines {one_line(', '.join(named))}, not the entry point {entry_point!r}"
        )
    context_parts = tuple(part for part in preamble if entry_point not in part.names)
    tests = context.self_contained(tests, entry_point, context_parts, solution)
    try:
        total = len(check_tests(tests, entry_point, prompt))
    except TestsError as error:
        raise TaskError(f"{location}: {error}") from error
    if wrong := context.fault(tests, entry_point, context_parts):
        raise TaskError(f"{location}: {wrong}")
    return CodeProblem(prompt, entry_point, tests, context_parts, total)


def solution_of(task: Task, prompt: str) -> str:
    """The solution that comes with a row, as a whole program; empty if none.

    Nothing of it is ever shown.

    Args:
        task: with a field `code`, as in MBPP, or `canonical_solution`, which HumanEval's prompt is part of.
        prompt: of the row.
    """
    for field in ("code", "canonical_solution"):
        given = task.data.get(field)
        if isinstance(given, str) and given.strip():
            return next((text for text in (prompt + given, given) if answers.parse(text)), "")
    return ""


def _text(task: Task, location: str, field: str) -> str:
    value = task.data.get(field)
    if not isinstance(value, str) or not value.strip():
        has = one_line(", ".join(map(str, task.data))) or "none"
        raise TaskError(f"{location}: the field {field!r} is missing or empty; it has {has}")
    return value


def _from_list(task: Task, location: str) -> tuple[str, str, str]:
    """Prompt, entry point and tests of a row in a schema of MBPP."""
    prompt = _text(task, location, "text" if "text" in task.data else "prompt")
    lines = _lines(task.data, "test_list", location)
    if not lines:
        raise TaskError(f"{location}: the field 'test_list' is missing or empty")
    setup = str(task.data.get("test_setup_code") or "")
    trees = [tree for line in lines if (tree := answers.parse(line))]
    if len(trees) < len(lines):
        wrong = next(line for line in lines if not answers.parse(line))
        raise TaskError(f"{location}: a test is not Python ({one_line(answers.fault(wrong))}): {one_line(wrong, 100)}")
    given = task.data.get("entry_point")
    entry_point = str(given) if given else _called(trees, solution_of(task, ""), location)
    request = f"{prompt.strip()}\n\nThe function is called like this:\n{lines[0].strip()}\n"
    return request, entry_point, "\n".join([*_lines(task.data, "test_imports", location), setup, *lines]).strip() + "\n"


def _lines(data: Mapping[str, Any], field: str, location: str) -> list[str]:
    value = data.get(field) or []
    if not isinstance(value, Sequence) or isinstance(value, str) or not all(isinstance(line, str) for line in value):
        raise TaskError(f"{location}: the field {field!r} must be a list of texts, got {type(value).__name__}")
    return list(value)


def _called(tests: Sequence[ast.Module], code: str, location: str) -> str:
    """The function that all tests call: one that the solution defines, where the row has one."""
    tree = answers.parse(code) if code else None
    solved = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)] if tree else []
    calls = [
        [node.func.id for node in ast.walk(test) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
        for test in tests
    ]
    common = [name for name in calls[0] if all(name in others for others in calls)]
    candidates = [name for name in common if name in solved] or [name for name in common if not hasattr(builtins, name)]
    if not candidates:
        raise TaskError(
            f"{location}: the tests in 'test_list' call no function in common, so the entry point is unknown"
        )
    return candidates[-1]
