"""Bounds of files and functions, no broad except, annotations and docstrings of all that is public."""

from __future__ import annotations

import ast

import pytest

from tests.architecture.source import ROOT, files, functions, tree

FILE_LINES = 400
FUNCTION_LINES, FUNCTION_USUAL, USUAL_SHARE = 80, 40, 0.9


def _lines(path):
    return len((ROOT / path).read_text(encoding="utf-8").splitlines())


def test_there_is_source_to_measure():
    tops = {path.parts[0] for path in files()}
    assert tops == {"palaver", "envs", "agents", "trainers", "benchmarks"}
    assert len(files()) > 40


def test_files_are_short():
    tests = sorted(path.relative_to(ROOT) for path in (ROOT / "tests").rglob("*.py"))
    assert {str(path): _lines(path) for path in (*files(), *tests) if _lines(path) > FILE_LINES} == {}


def test_functions_are_short():
    length = {
        f"{path}:{name}": (node.end_lineno or 0) - node.lineno + 1
        for path in files()
        for name, node, _ in functions(path)
    }
    assert {name: lines for name, lines in length.items() if lines > FUNCTION_LINES} == {}
    long = sorted((name for name in length if length[name] > FUNCTION_USUAL), key=length.get)
    assert 1 - len(long) / len(length) >= USUAL_SHARE, f"over {FUNCTION_USUAL} lines: {long}"


def test_no_broad_except():
    """But where code that is not ours runs: somebody else's environment, a data set's tests, a model's program."""
    broad = []
    for path in files():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ExceptHandler):
                caught = node.type.elts if isinstance(node.type, ast.Tuple) else [node.type]
                if any(c is None or ast.unparse(c) in ("Exception", "BaseException") for c in caught):
                    broad.append(str(path))
            elif isinstance(node, ast.FunctionDef) and node.name == "__exit__" and "Exception)" in ast.unparse(node):
                broad.append(f"{path} by its __exit__")
    foreign = {"envs/maths/procedural_worker.py", "envs/textarena/guard.py"}
    sandbox = {"envs/code/sandbox/examiner.py", "envs/code/sandbox/worker.py"}
    assert set(broad) == {"envs/base/checks.py"} | foreign | sandbox


def test_public_functions_are_annotated():
    bare = []
    for path in files():
        for name, node, public in functions(path):
            a = node.args
            given = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
            missing = [g.arg for g in given if g.annotation is None and g.arg not in ("self", "cls")]
            if public and (missing or node.returns is None):
                bare.append(f"{path}:{node.lineno} {name} {missing}")
    assert bare == []


def test_public_things_have_docstrings():
    bare = [str(path) for path in files() if ast.get_docstring(tree(path)) is None and path.name != "__init__.py"]
    for path in files():
        bare += [
            f"{path}:{node.lineno} {name}"
            for name, node, public in functions(path)
            if public and not node.name.startswith("__") and not ast.get_docstring(node)
        ]
        bare += [
            f"{path}:{node.lineno} {node.name}"
            for node in tree(path).body
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not ast.get_docstring(node)
        ]
    assert bare == []


@pytest.mark.parametrize("word", ["TODO", "FIXME", "XXX", "raise NotImplementedError", "breakpoint()"])
def test_nothing_is_left_unfinished(word):
    assert [str(path) for path in files() if word in (ROOT / path).read_text(encoding="utf-8")] == []
