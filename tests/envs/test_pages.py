"""The committed pages are what the code says; run `python -m palaver.envs.pages` to rewrite them."""

from __future__ import annotations

import re

import pytest

import palaver
from palaver import registry
from palaver.envs import pages


@pytest.mark.parametrize("id", palaver.specs())
def test_the_page_is_up_to_date(id):
    assert (pages.FOLDER / f"{id}.md").read_text(encoding="utf-8") == pages.page(palaver.spec(id))


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
    """`python -m palaver.benchmarks.figures` draws them again."""
    linked = re.findall(r"!\[[^]]*\]\(([^)]+)\)", pages.page(palaver.spec(id)))
    offered = "rgb_array" in palaver.make(id).metadata["render_modes"]
    assert bool(linked) == offered
    for target in linked:
        file = (pages.FOLDER / target).resolve()
        assert file.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
        assert file.stat().st_size < 60_000


def test_what_a_user_registers_has_no_page_here(tmp_path, monkeypatch):
    monkeypatch.setattr(pages, "FOLDER", tmp_path)
    monkeypatch.setitem(registry._SPECS, "mine-v0", registry.Spec("mine-v0", dict))
    assert pages.main([]) == 0
    assert {path.stem for path in tmp_path.iterdir()} == set(palaver.specs()) - {"mine-v0"}


def test_writing_and_checking(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(pages, "FOLDER", tmp_path / "docs")
    assert pages.main(["--check"]) == 1
    assert "arxiv-v0.md" in capsys.readouterr().err
    assert pages.main([]) == 0
    assert pages.main(["--check"]) == 0
    (tmp_path / "docs" / "echo-v0.md").write_text("old")
    assert pages.main(["--check"]) == 1
    assert "out of date: echo-v0.md;" in capsys.readouterr().err
