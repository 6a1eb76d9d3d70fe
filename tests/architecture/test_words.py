"""Docstrings in the field's terms: noun phrases and imperatives, and ever fewer words of the first wave."""

from __future__ import annotations

import ast
import re

from tests.architecture.source import files, tree

FIRST = re.compile(r"(What|Who|Whether|Which|Where|How)\b")
BANNED = re.compile(r"\b(paid|pays|anew|beside|whoever|likelier)\b", re.IGNORECASE)
LEFT = 5  # names of arguments and values, until they are renamed; may only fall


def docstrings() -> list[tuple[str, str]]:
    """(place, docstring) of every module, class and function."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return [
        (f"{path}:{getattr(node, 'lineno', 1)}", text)
        for path in files()
        for node in ast.walk(tree(path))
        if isinstance(node, kinds) and (text := ast.get_docstring(node))
    ]


def test_docstrings_do_not_begin_with_a_question_word():
    assert len(docstrings()) > 3000
    assert [place for place, text in docstrings() if FIRST.match(text)] == []


def test_words_of_the_first_wave_do_not_come_back():
    found = [f"{place} {word}" for place, text in docstrings() for word in BANNED.findall(text)]
    assert len(found) == LEFT, found  # lower LEFT where there are fewer
