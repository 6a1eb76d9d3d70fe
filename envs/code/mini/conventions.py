"""Classify the convention of a helper or a caller by its syntax tree. Pure.

A helper that takes a list and returns one is of `list`; of the others one that returns a comparison is of `test`, any
else of `map`. A caller is of `list` if it goes over what `aux` returns, of `test` if it calls `aux` to decide whether
to keep an element, of `map` if it calls `aux` for anything else.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from palaver.envs.code.mini.family import CONVENTIONS
from palaver.envs.code.programs import AUX, Program


def shares(program: Program) -> dict[str, float]:
    """`aux_NAME` and `main_NAME` for each convention: 1 for the one that the function follows, else 0."""
    found = {
        "aux": helper(program.aux.node) if program.aux else "",
        "main": caller(program.main.node) if program.main else "",
    }
    return {f"{seat}_{name}": float(found[seat] == name) for seat in found for name in CONVENTIONS}


def helper(node: ast.AST | None) -> str:
    """The convention of `aux`; "" where it returns nothing."""
    returned = [each.value for each in _walk(node) if isinstance(each, ast.Return) and each.value is not None]
    if not returned:
        return ""
    value = returned[-1]
    if isinstance(value, ast.ListComp | ast.List | ast.GeneratorExp):
        return "list"
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.func.id in ("list", "filter"):
        return "list"
    return "test" if isinstance(value, ast.Compare | ast.BoolOp) else "map"


def caller(node: ast.AST | None) -> str:
    """The convention of the function that calls `aux`; "" where it does not."""
    found = set[str]()
    for each in _walk(node):
        if isinstance(each, ast.comprehension):
            found |= {"list"} if _calls(each.iter) else set()
            found |= {"test"} if any(map(_calls, each.ifs)) else set()
        elif isinstance(each, ast.For) and _calls(each.iter):
            found.add("list")
        elif isinstance(each, ast.If) and _calls(each.test):
            found.add("test")
    if not found:
        return "map" if node is not None and _calls(node) else ""
    return "list" if "list" in found else "test"


def _calls(node: ast.AST) -> bool:
    return any(
        isinstance(each, ast.Call) and isinstance(each.func, ast.Name) and each.func.id == AUX for each in _walk(node)
    )


def _walk(node: ast.AST | None) -> Iterator[ast.AST]:
    return ast.walk(node) if node is not None else iter(())
