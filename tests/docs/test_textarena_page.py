"""The page of TextArena's games: a tiny model trains in one of them as the page shows."""

from __future__ import annotations

import shlex

import pytest

from tests.architecture.running import run
from tests.architecture.source import ROOT
from tests.docs.blocks import fences

PAGE = ROOT / "docs" / "textarena.md"
BLOCKS = {block.info: block.code for block in fences(PAGE)}


def write_files(folder):
    """Save the files that the page shows."""
    (folder / "kuhn.py").write_text(BLOCKS["python"], encoding="utf-8")
    (folder / "kuhn.yaml").write_text(BLOCKS["yaml"], encoding="utf-8")


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_the_example_trains_and_is_evaluated(tmp_path):
    pytest.importorskip("textarena")
    write_files(tmp_path)
    train, evaluate = (shlex.split(line) for line in BLOCKS["bash"].splitlines())
    assert "3 of 3" in run("-m", *train, cwd=tmp_path, path=ROOT, limit=600)
    assert "agents in focus" in run("-m", *evaluate, cwd=tmp_path, path=ROOT, limit=500)
