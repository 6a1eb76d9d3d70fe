"""The field's terms: docstrings begin with a noun or an imperative, and names say what an object is."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

from tests.architecture.source import files, tree

FIRST = re.compile(r"(What|Who|Whether|Which|Where|How)\b")
BANNED = re.compile(r"\b(paid|pays|anew|beside|whoever|likelier)\b", re.IGNORECASE)
SHARE = 0.02  # of bound names
FIRST_LINE = 90  # characters
VAGUE = re.compile(
    "found|each|place|said|part|told|own|made|most|shown|asked|number|limit|apart|here|there|ahead|kept|rest|whole|other"
    "|more|less|paid|pays|pay|tell|heard|hear|say|ask|seat|beside|pull|lane|company|stranger|whoever|remains|likelier"
    "|anew|nobody|none"
)
# names that several modules have in common, as hooks or as verbs that their module makes unique
COMMON = {
    "load", "read", "write", "save", "main", "run", "draw", "measure", "show", "score", "parse", "check",
    "reference", "opening", "demonstrations", "compare", "markdown", "table", "play", "plan",
    "prepare", "describe", "tasks", "rows", "train",
}  # fmt: skip
MOST = 3  # modules that have a public function of one name


def docstrings() -> list[tuple[str, str]]:
    """(place, docstring) of every module, class and function."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return [
        (f"{path}:{getattr(node, 'lineno', 1)}", text)
        for path in files()
        for node in ast.walk(tree(path))
        if isinstance(node, kinds) and (text := ast.get_docstring(node))
    ]


def bound(path: Path) -> Iterator[str]:
    """Every name that a file binds, once for each time it is bound."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.attr
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name


def public(kind: type | tuple[type, ...]) -> dict[str, list[str]]:
    """Name -> files of the public definitions at module level."""
    where = defaultdict(list)
    for path in files():
        for node in tree(path).body:
            if isinstance(node, kind) and not node.name.startswith("_"):
                where[node.name].append(str(path))
    return where


def test_docstrings_do_not_begin_with_a_question_word():
    assert len(docstrings()) > 3000
    assert [place for place, text in docstrings() if FIRST.match(text)] == []


def test_first_lines_of_docstrings_are_short():
    assert [place for place, text in docstrings() if len(text.partition("\n")[0]) > FIRST_LINE] == []


def test_words_of_the_first_wave_do_not_come_back():
    assert [f"{place} {word}" for place, text in docstrings() for word in BANNED.findall(text)] == []


def test_names_say_what_an_object_is():
    names = Counter(name.strip("_") for path in files() for name in bound(path))
    vague = {name: count for name, count in names.items() if VAGUE.fullmatch(name)}
    assert sum(vague.values()) <= SHARE * names.total(), vague


def test_a_public_class_has_a_name_of_its_own():
    assert {name: where for name, where in public(ast.ClassDef).items() if len(where) > 1} == {}


def test_few_modules_have_a_function_of_one_name():
    where = public((ast.FunctionDef, ast.AsyncFunctionDef))
    assert {name: found for name, found in where.items() if len(found) > MOST and name not in COMMON} == {}
    assert [name for name in COMMON if len(where[name]) <= MOST] == [], "take these off the list"
