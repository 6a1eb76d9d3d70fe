"""A data set's tests, made ready to be run one assertion at a time.

Two forms are read: a function `check(candidate)` (HumanEval), and assertions that call the entry point by its name
(MBPP). Each `assert` statement in the text is one test, however often it runs; an assertion of a constant, as in
`assert True, "..."`, tests nothing and is not counted. The statements of a body are tried one after the other: what one
of them raises fails the assertions within it, and the next is tried.

Standard library only: this module also runs in the examiner, where Palaver is not installed.
"""

from __future__ import annotations

import ast
import builtins
import functools
import threading
from collections.abc import Iterable
from types import CodeType
from typing import NamedTuple

TRIAL = "<trial>"  # no identifier, so that no name of a data set's can be equal to it
CHECK = "check"

# CPython up to 3.12 keeps the depth of the tree that it builds in the interpreter, not in the call. The garbage
# collector may run other code while a tree is built, and another thread that then builds one changes the depth:
# "SystemError: AST constructor recursion depth mismatch". Reentrant, for that code may parse in the same thread.
_one_at_a_time = threading.RLock()


def parse(source: str, name: str = "<unknown>") -> ast.Module:
    """`ast.parse`, by one thread at a time.

    Args:
        source: the text.
        name: of the file in messages.

    Raises:
        SyntaxError: it is no Python.
        ValueError, RecursionError, MemoryError: it holds a null byte, or nests too deeply.
    """
    with _one_at_a_time:
        return ast.parse(source, name)


def parse_expression(source: str) -> ast.expr:
    """The syntax tree of one expression, as `parse` makes it; the same errors."""
    with _one_at_a_time:
        return ast.parse(source, mode="eval").body


class UnusableError(ValueError):
    """Tests that cannot be used; the message gives the reason."""


class Assertion(NamedTuple):
    """One test: its line in the text, from 1, and its asserted expression."""

    line: int
    source: str


class Suite(NamedTuple):
    """Tests ready to be run.

    Attributes:
        assertions: the tests.
        code: the text, each of its statements that asserts something inside `with TRIAL(first, last, swallow)`.
        helpers: functions of the prompt that the tests need, such as the encoder whose decoder is requested.
        has_check: True if a function `check` must be called with the candidate.
        classes: names of the classes that the tests define.
    """

    assertions: tuple[Assertion, ...]
    code: CodeType
    helpers: CodeType
    has_check: bool
    classes: tuple[str, ...]


@functools.lru_cache(maxsize=512)
def read(tests: str, entry_point: str, prompt: str = "") -> Suite:
    """Read the tests of one task.

    Raises:
        UnusableError: they do not parse, assert nothing, or never call the candidate.

    >>> read("assert f(1) == 2\\nassert f(2) == 3", "f").assertions
    (Assertion(line=1, source='f(1) == 2'), Assertion(line=2, source='f(2) == 3'))
    """
    try:
        tree = parse(tests, "tests")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnusableError(f"the tests do not parse: {error}") from error
    check = next((s for s in tree.body if isinstance(s, ast.FunctionDef) and s.name == CHECK), None)
    if check is not None:
        tree.body = [statement for statement in tree.body if not _calls_check(statement)]
    _require_candidate(tree, check, entry_point)
    helpers = ast.Module(needed_of(prompt, entry_point, names_read([tree])), [])
    classes = [s.name for s in (*helpers.body, *tree.body) if isinstance(s, ast.ClassDef)]
    reader = _Reader()
    tree.body = reader.units(tree.body)
    if not reader.assertions:
        raise UnusableError("the tests hold no assertion")
    code = compile(ast.fix_missing_locations(tree), "tests", "exec", dont_inherit=True)
    helping = compile(helpers, "prompt", "exec", dont_inherit=True)
    return Suite(tuple(reader.assertions), code, helping, check is not None, tuple(classes))


class _Reader(ast.NodeTransformer):
    """Numbers the assertions and wraps them, and the statements that hold them."""

    def __init__(self) -> None:
        self.assertions: list[Assertion] = []
        self.swallow = True

    def units(self, body: list[ast.stmt]) -> list[ast.stmt]:
        return [self._unit(statement) for statement in body]

    def _unit(self, statement: ast.stmt) -> ast.stmt:
        first = len(self.assertions)
        rewritten: ast.stmt = self.visit(statement)
        last = len(self.assertions)
        indivisible = isinstance(statement, ast.Assert | ast.FunctionDef | ast.ClassDef)
        return rewritten if indivisible or first == last else _trial(first, last, True, rewritten)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        swallow, self.swallow = self.swallow, True
        node.body = self.units(node.body)
        self.swallow = swallow
        return node

    def visit_Try(self, node: ast.Try) -> ast.Try:
        """Leave exceptions raised in the body of a `try` to its handlers."""
        swallow, self.swallow = self.swallow, self.swallow and not node.handlers
        node.body = [self.visit(statement) for statement in node.body]
        self.swallow = swallow
        for handler in node.handlers:
            handler.body = [self.visit(statement) for statement in handler.body]
        node.orelse = [self.visit(statement) for statement in node.orelse]
        node.finalbody = [self.visit(statement) for statement in node.finalbody]
        return node

    def visit_Assert(self, node: ast.Assert) -> ast.stmt:
        if isinstance(node.test, ast.Constant) and node.test.value:
            return node
        self.assertions.append(Assertion(node.lineno, ast.unparse(node.test)))
        index = len(self.assertions)
        return _trial(index - 1, index, self.swallow, node)


def _trial(first: int, last: int, swallow: bool, statement: ast.stmt) -> ast.With:
    call = ast.Call(ast.Name(TRIAL, ast.Load()), [*map(ast.Constant, (first, last, swallow))], [])
    return ast.copy_location(ast.With([ast.withitem(call)], [statement]), statement)


def _calls_check(statement: ast.stmt) -> bool:
    """`check(solution)` at the end of a text: the examiner calls it itself."""
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Name)
        and statement.value.func.id == CHECK
    )


def _require_candidate(tree: ast.Module, check: ast.FunctionDef | None, entry_point: str) -> None:
    if check is None:
        if entry_point not in names_read([tree]):
            raise UnusableError(f"the tests never call {entry_point!r}, and define no check(candidate)")
        return
    parameters = [argument.arg for argument in check.args.posonlyargs + check.args.args]
    if not parameters:
        raise UnusableError("check takes no candidate")
    if not ({parameters[0], entry_point} - {CHECK}) & names_read(check.body):
        raise UnusableError(f"check never calls its {parameters[0]!r}, nor {entry_point!r}")


def names_read(nodes: Iterable[ast.AST]) -> set[str]:
    """Every name read in the nodes."""
    return {
        node.id
        for top in nodes
        for node in ast.walk(top)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
    }


def needed_of(source: str, entry_point: str, names: set[str]) -> list[ast.stmt]:
    """Top-level statements of a text that bind one of the names, and those they need.

    Prose has none.

    Args:
        source: a prompt, or a solution.
        entry_point: what binds it is never taken.
        names: builtins aside.
    """
    try:
        body = parse(source, "source").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        body = []
    wanted = names - {entry_point} - vars(builtins).keys()
    usable = [statement for statement in body if entry_point not in _binds(statement)]
    selected: list[ast.stmt] = []
    while found := [node for node in usable if node not in selected and _binds(node) & wanted]:
        selected += found
        wanted |= names_read(found)
    return [statement for statement in usable if statement in selected]


def _binds(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {(alias.asname or alias.name).partition(".")[0] for alias in statement.names}
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        return {n.id for n in ast.walk(statement) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    return set()
