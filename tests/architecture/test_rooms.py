"""Folders are topics: few files in each, and no two folders that import each other."""

from __future__ import annotations

import re
from collections import Counter, defaultdict

from tests.architecture.source import ROOT, files, imports, module

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


def test_files_that_the_page_of_places_names_exist():
    text = (ROOT / "docs" / "layout.md").read_text(encoding="utf-8").partition("What follows")[0]
    named = [path for path in re.findall(r"`([\w/]+(?:\.py|/))`", text) if "NAME" not in path]
    assert len(named) >= 10
    assert [path for path in named if not (ROOT / path).exists()] == []
