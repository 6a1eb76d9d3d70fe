"""Tests and what they need of their row's solution, or why they cannot be run. Pure.

The tests of some rows use a class, a module or a helper of the row's own solution. They get it from there, and not from
the program under test: the row is trusted, and what it defines is run where the tests are.
"""

from __future__ import annotations

import ast
import builtins
import sys
from collections.abc import Iterable, Iterator

from palaver.envs.code import answers
from palaver.envs.code.answers import Part
from palaver.envs.code.programs import bindings
from palaver.envs.code.sandbox.suite import CHECK, names_read, needed_of

_GIVEN = frozenset({*vars(builtins), "__name__", "candidate"})  # names that tests may read


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
