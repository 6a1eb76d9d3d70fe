"""Problems: a prompt, the requested function and its tests.

They are read and checked before anything runs. Three public schemas are read: that of HumanEval and CoopHumanEval
(`prompt`, `entry_point`, `test` with a function `check(candidate)`), and the two of MBPP (`text` or `prompt`,
`test_list`, with `test_setup_code` or `test_imports`).

The tests of some rows use a class, a module or a helper of the row's own solution. They get it from there, and not from
the program under test: the row is trusted, and what it defines is run where the tests are.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palaver.core import TaskError
from palaver.envs.base.tasks import ParsedTasks, Shared, Task, read_tasks
from palaver.envs.code import answers
from palaver.envs.code.answers import Part
from palaver.envs.code.programs import AUX, bindings
from palaver.envs.code.sandbox import TestsError, check_tests
from palaver.envs.code.sandbox.suite import CHECK, names_read, needed_of
from palaver.text import one_line

_GIVEN = frozenset({*vars(builtins), "__name__", "candidate"})  # names that tests may read


@dataclass(frozen=True, slots=True)
class CodeProblem(Shared):
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

    @property
    def context(self) -> str:
        """The preamble as source: names that tests may need in addition to the candidate."""
        return "\n\n".join(part.source for part in self.preamble)


def load(
    source: str | os.PathLike[str], *, sample: Path, split: str
) -> tuple[tuple[Task, ...], ParsedTasks[CodeProblem]]:
    """The tasks of `source`, and id -> problem.

    Args:
        source: as `palaver.envs.base.tasks.load_tasks` reads it; `task_id` names a task.
        sample: the file behind `sample`.
        split: of an `hf:` source that names none.

    Raises:
        TaskError: the source cannot be read, or no row of it is a problem: each lacks a field, has tests that are no
            Python or never call the entry point. The message names the first row.
    """
    return read_tasks(
        source, lambda task: problem(task, source), sample=sample, fields={}, id_field="task_id", split=split
    )


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
    tests = self_contained(tests, entry_point, context_parts, solution)
    try:
        total = len(check_tests(tests, entry_point, prompt))
    except TestsError as error:
        raise TaskError(f"{location}: {error}") from error
    if wrong := fault(tests, entry_point, context_parts):
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


def self_contained(tests: str, entry_point: str, preamble: Iterable[Part], solution: str) -> str:
    """The tests behind the definitions of the row's solution that they need.

    The entry point is not among these definitions.

    Args:
        tests: as the row has them.
        entry_point: always the program's.
        preamble: what the prompt defines.
        solution: the row's own; empty where it has none.

    >>> self_contained("assert f(1) == sys.maxsize", "f", (), "import sys\\ndef f(x): return sys.maxsize")
    'import sys\\nassert f(1) == sys.maxsize'
    """
    tree = answers.parse(tests)
    missing = names_read([tree]) - _known(tree, entry_point, preamble) if tree else set()
    needed = needed_of(solution, entry_point, missing) if missing else []
    return "\n".join([*map(ast.unparse, needed), tests])


def fault(tests: str, entry_point: str, preamble: Iterable[Part]) -> str:
    """Reason why tests cannot be run with any program; "" if there is none.

    Args:
        tests: a text that parses.
        entry_point: the function under test.
        preamble: what the prompt defines.

    >>> fault("assert f(helper(1)) == 2", "f", ())
    "the tests read 'helper', which nothing defines"
    """
    tree, preamble = answers.parse(tests), tuple(preamble)
    if tree is None:
        return ""
    imported = [part.node for part in preamble if part.node is not None and part.kind == "import"]
    for name in (*_foreign(tree), *(name for node in imported for name in _foreign(node))):
        return f"the tests or the prompt import {name!r}, and only the standard library can be imported"
    read = {node.id for node in _certain(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
    unbound = read - _known(tree, entry_point, preamble)
    if unbound and not _binds_unseen(tree):
        return f"the tests read {min(unbound)!r}, which nothing defines"
    if passed := _function_passed(tree, entry_point):
        return f"the tests pass a function as an argument, {passed}, and only plain values can be passed"
    return ""


def _known(tree: ast.Module, entry_point: str, preamble: Iterable[Part]) -> set[str]:
    """Names that have a meaning in the tests."""
    of_prompt = {name for part in preamble for name in part.names}
    return bindings(list(ast.walk(tree))) | of_prompt | {entry_point} | _GIVEN


def _certain(tree: ast.AST) -> Iterator[ast.AST]:
    """Code that is run for sure, or nearly so.

    It is in no branch, in no second half of an `or`, and in no function but `check`.
    """
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            waiting.append(node.test)
        elif isinstance(node, ast.BoolOp):
            waiting.append(node.values[0])
        elif isinstance(node, ast.FunctionDef) and node.name == CHECK:
            waiting += node.body
        elif not isinstance(node, ast.Try | ast.FunctionDef | ast.ClassDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
            yield node


def _binds_unseen(tree: ast.Module) -> bool:
    """Return True where `import *`, `exec` or the like may bind names invisibly."""
    star = any(alias.name == "*" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) for alias in node.names)
    return star or bool(names_read([tree]) & {"exec", "globals", "locals", "vars", "setattr"})


def _foreign(tree: ast.AST) -> Iterator[str]:
    """Modules that are not of the standard library, imported where no `try` is around it."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Try):
            continue
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        else:
            modules = ["." * node.level + (node.module or "")] if isinstance(node, ast.ImportFrom) else []
        yield from (name for name in modules if name.partition(".")[0] not in sys.stdlib_module_names)
        waiting += ast.iter_child_nodes(node)


def _function_passed(tree: ast.Module, entry_point: str) -> str:
    """A function, or a generator, that is an argument of a call of the candidate; "" if none."""
    functions = {node.name: node for node in tree.body if isinstance(node, ast.FunctionDef)}
    check = functions.get(CHECK)
    called = {entry_point, "candidate", *(argument.arg for argument in check.args.args[:1])} if check else {entry_point}
    builtin = {name for name, value in vars(builtins).items() if callable(value) and not isinstance(value, type)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in called:
            for value in (*node.args, *(keyword.value for keyword in node.keywords)):
                named = isinstance(value, ast.Name) and value.id in (builtin | functions.keys()) - _stored(tree)
                if named or isinstance(value, ast.Lambda | ast.GeneratorExp):
                    return f"`{ast.unparse(value)[:60]}`"
    return ""


def _stored(tree: ast.Module) -> set[str]:
    """Names that are assigned, as an argument or by a statement.

    They may have another value than elsewhere.
    """
    stored = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return stored | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
