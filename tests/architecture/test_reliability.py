"""The page of promises: each row names a test that there is, or says that there is none."""

from __future__ import annotations

import ast
import functools
import re

from tests.architecture.source import ROOT

PAGE = ROOT / "docs" / "reliability.md"
ROWS = [
    [cell.strip() for cell in line.strip("|\n").split("|")]
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| promise |")
]
NAME = r"`(tests/[\w/]+\.py)::(test_\w+)`"


@functools.cache
def functions_in(path):
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def test_every_row_has_a_promise_a_measure_and_tests():
    assert len(ROWS) >= 30
    assert [row for row in ROWS if len(row) != 3 or not all(row)] == []
    assert [row for row in ROWS if row[2] != "not yet" and not re.fullmatch(rf"{NAME}(, {NAME})*", row[2])] == []


def test_every_named_test_is_there():
    named = [found.groups() for row in ROWS for found in re.finditer(NAME, row[2])]
    assert len(named) >= 20
    lost = [f"{path}::{name}" for path, name in named if not (ROOT / path).is_file() or name not in functions_in(path)]
    assert lost == []
