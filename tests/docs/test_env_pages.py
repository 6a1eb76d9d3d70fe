"""Pages of the environments."""

from __future__ import annotations

import re

import pytest

import palaver
from docs.build import env_pages as pages
from palaver import registry


@pytest.mark.parametrize("id", palaver.specs())
def test_the_page_has_every_part(id):
    text = pages.page(palaver.spec(id))
    headings = [line[3:] for line in text.splitlines() if line.startswith("## ")]
    for part in ("Arguments", "Observation", "Action", "Rewards", "Termination", "Data", "Version history"):
        assert part in headings
    for keyword in palaver.spec(id).keywords():
        assert f"| `{keyword}` |" in text


@pytest.mark.parametrize("id", palaver.specs())
def test_the_pictures_of_a_page_are_there(id):
    """`python -m docs.build.env_figures` draws them again."""
    linked = re.findall(r"!\[[^]]*\]\(([^)]+)\)", pages.page(palaver.spec(id)))
    offered = "rgb_array" in palaver.make(id).metadata["render_modes"]
    assert bool(linked) == offered
    for target in linked:
        file = (pages.FOLDER / target).resolve()
        assert file.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert file.stat().st_size < 60_000


def test_an_environment_registered_by_a_user_has_no_page(monkeypatch):
    monkeypatch.setitem(registry._SPECS, "mine-v0", registry.Spec("mine-v0", dict))
    paged = {path.stem for path in pages.wanted()}
    assert "arxiv-v0" in paged
    assert "mine-v0" not in paged
