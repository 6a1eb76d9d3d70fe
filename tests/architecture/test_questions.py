"""A newcomer's test: "where is X?" is answered by one of the first two files that a search for a word finds."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import yaml

from tests.architecture.source import files, tree

QUESTIONS = yaml.safe_load((Path(__file__).parent / "questions.yaml").read_text(encoding="utf-8"))
ENOUGH = 18  # of 20
COMMON = {"where", "from", "does", "with", "made", "its", "the", "are", "and", "get", "over"}


def matches(term: str, name: str) -> bool:
    """True if `name` has the term as a word or the beginning of one; a term of several words as a part."""
    name = name.lower().strip("_")
    return term in name if "_" in term else any(word.startswith(term) for word in re.split(r"[_/]", name))


def hits(term: str, question: str) -> list[str]:
    """Files that a search finds, best first.

    A file counts 3 if it has the term as its name, 2 if in its name, 2 if in its folder, 1 if in the name of a
    definition; and for each other word of the question 2 if in its name, else 1 if in its folder or a definition.
    """
    words = {word[:5] for word in re.findall(r"[a-z]{4,}", question.lower()) if word not in COMMON} - {term[:5]}
    found = []
    for path in files():
        stem, folder = path.stem, str(path.parent)
        names = [node.name for node in ast.walk(tree(path)) if isinstance(node, ast.ClassDef | ast.FunctionDef)]
        score = 3 if stem == term else 2 * matches(term, stem)
        score += 2 * matches(term, folder) + any(matches(term, name) for name in names)
        if score:
            for word in words:
                score += 2 if matches(word, stem) else any(matches(word, name) for name in (folder, *names))
            found.append((-score, str(path)))
    return [path for _, path in sorted(found)]


def test_questions_are_answered_by_the_first_two_hits():
    first = {item["question"]: hits(item["term"], item["question"])[:2] for item in QUESTIONS}
    missed = {
        item["question"]: first[item["question"]] for item in QUESTIONS if item["file"] not in first[item["question"]]
    }
    assert len(QUESTIONS) == 20
    assert len(QUESTIONS) - len(missed) >= ENOUGH, missed


def test_the_answers_exist():
    assert [each["file"] for each in QUESTIONS if Path(each["file"]) not in files()] == []
