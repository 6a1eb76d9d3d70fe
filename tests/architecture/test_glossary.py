"""docs/glossary.md has each term once, and each links to a symbol that its file defines."""

from __future__ import annotations

import ast
import re
from collections import Counter

import pytest

from tests.architecture.source import ROOT, tree

PAGE = ROOT / "docs" / "glossary.md"
LINES = re.findall(
    r"^\| ([^|]+) \| [^|]+ \| \[`(\w+)`\]\(\.\./([\w/]+\.py)\) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE
)


def symbols(file):
    """Names that a file binds: of definitions, and of assignments at any depth."""
    nodes = list(ast.walk(tree((ROOT / file).relative_to(ROOT))))
    defined = {node.name for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    return defined | {node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}


def test_every_line_of_the_tables_is_a_term():
    lines = re.findall(r"^\| (?!term |---)", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert len(LINES) == len(lines) >= 50


def test_a_term_is_there_once():
    assert [term for term, count in Counter(term.lower() for term, *_ in LINES).items() if count > 1] == []


@pytest.mark.parametrize(("term", "symbol", "file"), LINES, ids=[term for term, *_ in LINES])
def test_a_term_links_to_its_symbol(term, symbol, file):
    assert symbol in symbols(file), term
