"""The program that two answers make together. Pure.

Its syntax tree shows their cooperation. The program is, in this order: the imports of the problem and of both answers,
the helper functions that the problem's prompt defines, `aux` with what it needs of its answer, the entry point with
what it needs of its own. An answer's other statements are left out, and so is an `aux` that main wrote next to its
function: the helper is the colleague's.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from palaver.envs.code.answers import ParsedProgram, Part, fault

AUX = "aux"
_NAMED = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.ExceptHandler | ast.MatchAs | ast.MatchStar


@dataclass(frozen=True, slots=True)
class Program:
    """The program joined from the answers.

    Attributes:
        source: the joined program.
        aux: the function `aux` as written, None where there is none.
        main: the entry point as written, None where there is none.
        aux_defined: True if `aux` is there and returns something.
        fault: why the program does not parse; "" where it does.
        calls_aux: True if the entry point calls `aux`.
        wrapper: True if it only returns what `aux` returns.
        ignores_aux: True if it calls `aux` and drops a result.
    """

    source: str
    aux: Part | None
    main: Part | None
    aux_defined: bool
    fault: str = ""
    calls_aux: bool = False
    wrapper: bool = False
    ignores_aux: bool = False


def join(preamble: Sequence[Part], aux: ParsedProgram, main: ParsedProgram, entry_point: str) -> Program:
    """The program of two answers; of one, if it is given twice.

    Args:
        preamble: imports and helper functions of the problem.
        aux: the answer that is to hold the helper.
        main: the answer that is to hold the entry point.
        entry_point: its name.
    """
    helper, entry = aux.function(AUX), main.function(entry_point)
    aux_parts = aux.needed(AUX, without=frozenset({entry_point}))
    main_parts = tuple(part for part in main.needed(entry_point, without=frozenset({AUX})) if AUX not in part.names)
    parts = [*preamble, *aux_parts, *main_parts]
    imports = [part for part in parts if part.kind == "import"]
    ordered = [*filter(_future, imports), *(part for part in imports if not _future(part))]
    ordered += [part for part in parts if part.kind != "import"]
    source = "\n\n".join(dict.fromkeys(part.source for part in ordered)) + "\n"
    wrong = fault(source)
    returns = helper is not None and (_returns(helper.node) if helper.node else "return" in helper.source.split())
    if wrong or entry is None or helper is None:
        return Program(source, helper, entry, returns, wrong)
    functions = [part.node for part in main_parts if isinstance(part.node, ast.FunctionDef)]
    return Program(source, helper, entry, returns, wrong, *_use(functions, entry_point))


def _future(part: Part) -> bool:
    return part.always and "*" not in part.names


def _returns(node: ast.stmt) -> bool:
    """Return whether a function returns a value itself, nested functions aside."""
    waiting: list[ast.AST] = [node]
    while waiting:
        current = waiting.pop()
        if isinstance(current, ast.Return) and current.value is not None:
            return True
        inner = ast.iter_child_nodes(current)
        waiting += [
            child for child in inner if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        ]
    return False


def _use(functions: Sequence[ast.FunctionDef], entry_point: str) -> tuple[bool, bool, bool]:
    """Return whether the entry point calls `aux`, is a thin wrapper of it, and drops its result.

    A function of main's that is itself a thin wrapper of `aux` counts as `aux`.
    """
    names, uses_aux = {AUX}, True
    while uses_aux:
        uses_aux = False
        for function in functions:
            if function.name not in names and function.name != entry_point and _is_wrapper(function, names):
                names.add(function.name)
                uses_aux = True
    views = [_View(function, names) for function in functions if function.name not in names]
    entry = next(function for function in functions if function.name == entry_point)
    return any(view.calls for view in views), _is_wrapper(entry, names), any(view.drops for view in views)


class _View:
    """View of how one function uses the helper, which has any of `names`."""

    def __init__(self, function: ast.FunctionDef, names: set[str]) -> None:
        live = list(_live(function))
        live_bindings = bindings(live)
        known = names - live_bindings
        aliases = {  # f = aux
            target.id
            for node in live
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Name) and node.value.id in known
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        self.names = known | aliases
        self.read = {node.id for node in live if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)}
        self.calls = any(self._calls(node) for node in live)
        self.drops = any(self._drops(node) for node in live)

    def _is_helper(self, node: ast.expr) -> bool:
        return isinstance(node, ast.Name) and node.id in self.names

    def _calls(self, node: ast.AST) -> bool:
        """Calls `aux(...)`, and `aux` as an argument of a function that will call it.

        Examples of the latter are `map(aux, xs)` and `key=aux`.
        """
        if not isinstance(node, ast.Call):
            return False
        handed = (*node.args, *(keyword.value for keyword in node.keywords))
        return any(map(self._is_helper, (node.func, *handed)))

    def _drops(self, node: ast.AST) -> bool:
        """A call whose value is thrown away, or given to names that are never read."""
        targets: list[ast.expr] = []
        if isinstance(node, ast.Expr):
            value: ast.expr | None = node.value
            if isinstance(value, ast.NamedExpr):
                targets = [value.target]
                value = value.value
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            value, targets = node.value, node.targets if isinstance(node, ast.Assign) else [node.target]
        else:
            return False
        if not (isinstance(value, ast.Call) and self._is_helper(value.func)):
            return False
        stored = [child for target in targets for child in ast.walk(target)]
        if any(isinstance(child, ast.Attribute | ast.Subscript) for child in stored):
            return False
        return not any(isinstance(child, ast.Name) and child.id in self.read for child in stored)


def _is_wrapper(function: ast.FunctionDef, names: set[str]) -> bool:
    """Return whether a function only returns the result of `aux`, directly or through names."""
    known = names - bindings(list(_live(function)))
    held = set[str]()  # names for the result
    for statement in _until_end(function.body):
        if isinstance(statement, ast.Pass | ast.Import | ast.ImportFrom | ast.Global | ast.Nonlocal):
            continue
        if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
            continue
        if isinstance(statement, ast.Return):
            return statement.value is not None and _is_result(statement.value, known, held)
        value = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign) else None
        targets = _simple_targets(statement)
        if value is None or targets is None:
            return False
        if _is_result(value, known, held):
            held.update(targets)
        elif isinstance(value, ast.Name) and value.id in known:
            known |= set(targets)
        elif isinstance(value, ast.Name | ast.Constant):
            held.difference_update(targets)
        else:
            return False
    return False


def _is_result(value: ast.expr, names: set[str], held: set[str]) -> bool:
    """Return whether an expression is the unchanged result of `aux`."""
    if isinstance(value, ast.NamedExpr):
        value = value.value
    if isinstance(value, ast.Name):
        return value.id in held
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in names


def _simple_targets(statement: ast.stmt) -> list[str] | None:
    if isinstance(statement, ast.AnnAssign):
        targets: list[ast.expr] = [statement.target]
    else:
        targets = statement.targets if isinstance(statement, ast.Assign) else []
    names = [target.id for target in targets if isinstance(target, ast.Name)]
    return names if targets and len(names) == len(targets) else None


def bindings(nodes: Sequence[ast.AST]) -> set[str]:
    """Names that the nodes after the first bind.

    Those of a function, or of a module, behind it.
    """
    bound = set[str]()
    for node in nodes[1:]:
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            bound.add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, ast.alias):
            bound.add(node.asname or node.name.partition(".")[0])
        elif isinstance(node, _NAMED) and node.name:
            bound.add(node.name)
    return bound


def _live(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """The function and the nodes in it that can be reached.

    Nodes behind a `return` or in `if False` cannot.
    """
    waiting: list[ast.AST] = [function]
    while waiting:
        node = waiting.pop()
        yield node
        dead = _dead_branch(node)
        for name, value in ast.iter_fields(node):
            if name == dead:
                continue
            if isinstance(value, list):
                inner = [child for child in value if isinstance(child, ast.AST)]
                statements = [child for child in inner if isinstance(child, ast.stmt)]
                waiting += _until_end(statements) if statements else inner
            elif isinstance(value, ast.AST):
                waiting.append(value)


def _dead_branch(node: ast.AST) -> str:
    """The field of a node that is never run, because a constant decides."""
    if isinstance(node, ast.If | ast.While | ast.IfExp) and isinstance(node.test, ast.Constant):
        return "orelse" if node.test.value else "body"
    return ""


def _until_end(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a block up to the first that leaves it."""
    for statement in statements:
        yield statement
        if isinstance(statement, ast.Return | ast.Raise | ast.Break | ast.Continue):
            return
