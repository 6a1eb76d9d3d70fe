"""Folders are topics: few files in each, and no two folders that import each other."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from graphlib import TopologicalSorter

from tests.architecture.source import ROOT, files, imports, module

MOST = 16
LARGER = {"trainers/algorithms": "one file for each algorithm"}


def test_a_folder_holds_few_files():
    sizes = Counter(str(path.parent) for path in files())
    assert {folder for folder, count in sizes.items() if count > MOST} == LARGER.keys()


def test_imports_between_folders_form_no_cycle():
    """A list of the folders exists in which each imports only earlier ones, so also no two import each other."""
    folder = {module(path): str(path.parent) for path in files()}
    folder["palaver.__main__"] = "palaver/cli"  # the command
    below: dict[str, set[str]] = defaultdict(set)
    for path in files():
        here = folder[module(path)]
        below[here] |= {folder[name] for name in imports(path) if name in folder} - {here}
    assert len(list(TopologicalSorter(below).static_order())) == len(set(folder.values()))  # a cycle raises


def test_files_that_the_page_of_places_names_exist():
    text = (ROOT / "docs" / "layout.md").read_text(encoding="utf-8").partition("What follows")[0]
    named = [path for path in re.findall(r"`([\w/]+(?:\.py|/))`", text) if "NAME" not in path]
    assert len(named) >= 10
    assert [path for path in named if not (ROOT / path).exists()] == []
