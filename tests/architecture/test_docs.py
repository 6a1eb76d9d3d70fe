"""The documentation hangs together: every page is in the index, every link inside the repository leads somewhere."""

from __future__ import annotations

import re

import pytest

from tests.architecture.source import ROOT, files, module

DOCS = ROOT / "docs"
FOREIGN = {"arxiv_rewards.py", "code_rewards.py", "tldr_rewards.py", "train_spiral.py"}  # of other projects
WRITTEN = {"train.py", "train_with_tools.py"}  # by a command
PAGES = sorted(path.relative_to(ROOT) for path in [ROOT / "README.md", *DOCS.rglob("*.md")])


def _links(text):
    """Targets of Markdown links, those in code left out."""
    text = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    return re.findall(r"\]\(([^)\s]+)\)", text)


def _anchors(text):
    heads = re.findall(r"^#+ (.+)$", re.sub(r"```.*?```", "", text, flags=re.DOTALL), flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=str)
def test_links(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    dead = []
    for target in _links(text):
        if "://" in target or target.startswith("mailto:"):
            continue
        path, _, anchor = target.partition("#")
        there = (ROOT / page).parent / path if path else ROOT / page
        if not there.exists() or (anchor and anchor not in _anchors(there.read_text(encoding="utf-8"))):
            dead.append(target)
    assert dead == []


def test_every_page_is_in_the_index():
    linked = {(DOCS / target).resolve() for target in _links((DOCS / "README.md").read_text(encoding="utf-8"))}
    assert {path for path in DOCS.rglob("*.md") if path.name != "README.md"} - linked == set()


def test_files_and_modules_named_in_the_source_exist():
    sources = {module(path): (ROOT / path).read_text(encoding="utf-8") for path in files()}
    folders = {name.rpartition(".")[0] for name in sources}
    names = {path.name for path in files()} | FOREIGN | WRITTEN
    wrong = []
    for here, text in sources.items():
        wrong += [f"{here}: {name}" for name in re.findall(r"\b([a-z]\w*\.py)\b", text) if name not in names]
        for dotted in re.findall(r"`(palaver(?:\.\w+)+)`", text):
            owner, _, name = dotted.rpartition(".")
            if owner not in sources:  # a method, or a folder without a module of its own
                owner, _, name = owner.rpartition(".")
            defined = re.search(rf"\b{name}\b", sources.get(owner, ""))
            if dotted not in sources.keys() | folders and not defined:
                wrong.append(f"{here}: {dotted}")
    assert wrong == []
