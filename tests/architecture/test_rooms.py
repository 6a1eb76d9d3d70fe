"""Folders are topics: few files in each, and no two folders that import each other."""

from __future__ import annotations

from collections import Counter, defaultdict

from tests.architecture.source import files, imports, module

MOST = 16
LARGER = {"trainers/algorithms": "one file for each algorithm"}
# to be parted: these lists may only get shorter
TOO_LARGE = {"benchmarks/curriculum", "benchmarks/judge_audit", "envs/code", "envs/code/sandbox"}
CIRCLES = {
    ("agents/llm/generation", "agents/llm/scoring"),
    ("benchmarks/evaluation", "benchmarks/scenarios"),
    ("benchmarks/reports", "benchmarks/viewer"),
    ("envs/maths", "envs/workflows"),
    ("envs/maths/mini", "envs/workflows"),
    ("palaver", "palaver/cli"),
    ("palaver/cli", "palaver/cli/commands"),
    ("palaver/cli", "palaver/cli/groups"),
    ("palaver/cli/commands", "palaver/cli/groups"),
    ("trainers/run", "trainers/update"),
    ("trainers/update", "trainers/value_decomposition"),
}


def test_a_folder_holds_few_files():
    sizes = Counter(str(path.parent) for path in files())
    assert {folder for folder, count in sizes.items() if count > MOST} - LARGER.keys() == TOO_LARGE


def test_no_two_folders_import_each_other():
    known = {module(path): str(path.parent) for path in files()}
    below = defaultdict(set)
    for path in files():
        here = str(path.parent)
        below[here] |= {known[name] for name in imports(path) if name in known} - {here}
    found = {(one, other) for one in below for other in below[one] if one < other and one in below[other]}
    assert found == CIRCLES
