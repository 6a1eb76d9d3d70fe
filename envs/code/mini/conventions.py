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
    """`aux_NAME` and `main_NAME` for each convention.

    The value is 1 for the convention that the function follows, else 0.
    """
    conventions = {
        "aux": helper(program.aux.node) if program.aux else "",
        "main": caller(program.main.node) if program.main else "",
    }
    return {f"{agent}_{name}": float(conventions[agent] == name) for agent in conventions for name in CONVENTIONS}


def helper(node: ast.AST | None) -> str:
    """The convention of `aux`; "" where it returns nothing."""
    returned = [child.value for child in _walk(node) if isinstance(child, ast.Return) and child.value is not None]
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
    conventions = set[str]()
    for child in _walk(node):
        if isinstance(child, ast.comprehension):
            conventions |= {"list"} if _calls(child.iter) else set()
            conventions |= {"test"} if any(map(_calls, child.ifs)) else set()
        elif isinstance(child, ast.For) and _calls(child.iter):
            conventions.add("list")
        elif isinstance(child, ast.If) and _calls(child.test):
            conventions.add("test")
    if not conventions:
        return "map" if node is not None and _calls(node) else ""
    return "list" if "list" in conventions else "test"


def _calls(node: ast.AST) -> bool:
    return any(
        isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id == AUX
        for child in _walk(node)
    )


def _walk(node: ast.AST | None) -> Iterator[ast.AST]:
    return ast.walk(node) if node is not None else iter(())
