"""One home for each idea: some functions of libraries are used in one place only."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

import pytest

from tests.architecture.source import files, tree

HOMES = {
    "worker processes": (
        r"multiprocessing(\.|$)|torch\.multiprocessing|os\.fork|concurrent\.futures\.(process|ProcessPool)",
        ("palaver/utils/workers.py", "envs/code/sandbox/", "envs/pokemon/showdown/"),
    ),
    "bootstraps and quantiles": (
        r"scipy\.stats\.bootstrap|numpy\.(nan)?(quantile|percentile)",
        ("palaver/utils/stats/",),
    ),
}


def names(module: ast.Module) -> Iterator[tuple[int, str]]:
    """(line, full name) of every imported module or object, and of every attribute of one."""
    known: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                known[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom) and not node.level:
            for alias in node.names:
                known[alias.asname or alias.name] = f"{node.module}.{alias.name}"
                yield node.lineno, f"{node.module}.{alias.name}"
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute):
            first, dot, rest = ast.unparse(node).partition(".")
            if first in known:
                yield node.lineno, f"{known[first]}{dot}{rest}"


def used(module: ast.Module, pattern: str) -> list[tuple[int, str]]:
    return sorted({(line, name) for line, name in names(module) if re.match(pattern, name)})


@pytest.mark.parametrize("idea", HOMES)
def test_what_has_a_home_is_used_there_only(idea):
    pattern, homes = HOMES[idea]
    found = {path.as_posix(): used(tree(path), pattern) for path in files()}
    assert {path: uses for path, uses in found.items() if uses and not path.startswith(homes)} == {}
    assert [home for home in homes[:1] if not any(uses for path, uses in found.items() if path.startswith(home))] == []


@pytest.mark.parametrize(
    ("idea", "code"),
    [
        ("worker processes", "import multiprocessing"),
        ("worker processes", "import multiprocessing.pool as p"),
        ("worker processes", "from multiprocessing import get_context"),
        ("worker processes", "def f():\n    from multiprocessing.connection import wait"),
        ("worker processes", "import torch\ntorch.multiprocessing.spawn(f)"),
        ("worker processes", "from concurrent.futures import ProcessPoolExecutor"),
        ("worker processes", "from concurrent import futures\nfutures.ProcessPoolExecutor(2)"),
        ("worker processes", "import os\nos.fork()"),
        ("bootstraps and quantiles", "import numpy as np\nlow = np.quantile(x, 0.025)"),
        ("bootstraps and quantiles", "import numpy\nlow = numpy.nanpercentile(x, 2.5)"),
        ("bootstraps and quantiles", "from numpy import percentile as p"),
        ("bootstraps and quantiles", "from scipy import stats\nstats.bootstrap((x,), f)"),
        ("bootstraps and quantiles", "def f():\n    import scipy.stats\n    return scipy.stats.bootstrap"),
    ],
)
def test_a_breach_is_noticed(idea, code):
    assert used(ast.parse(code), HOMES[idea][0])


@pytest.mark.parametrize(
    ("idea", "code"),
    [
        ("worker processes", "from concurrent.futures import ThreadPoolExecutor\nimport os\nos.path.join('a')"),
        (
            "bootstraps and quantiles",
            "from palaver.utils.stats.intervals import quantile\nimport numpy as np\nnp.median(x)",
        ),
    ],
)
def test_other_uses_are_free(idea, code):
    assert used(ast.parse(code), HOMES[idea][0]) == []
