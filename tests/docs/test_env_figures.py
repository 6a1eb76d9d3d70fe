"""The pictures of the environments' pages."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

import palaver
from docs.build import env_figures as figures
from docs.build.env_pages import pictures
from palaver.envs.minecraft.rendering import rgb_array

DRAWN = [(id, team) for id, spec in palaver.specs().items() for team in pictures(spec)]


def test_every_scripted_team_but_the_silent_is_drawn():
    assert ("housebuild-v0", "reference") in DRAWN
    assert ("strbuild-v0", "twins") in DRAWN
    assert not any(team == "lazy" or id == "echo-v0" for id, team in DRAWN)


def test_the_reference_has_built_the_house(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(figures, "FOLDER", tmp_path / "figures")
    assert figures.main(["build-mini-v0"]) == 0
    written = sorted(path.name for path in (tmp_path / "figures").iterdir())
    assert written == [f"build-mini-v0-{team}.png" for team in ("reference", "strangers", "twins")]
    assert len(capsys.readouterr().out.splitlines()) == 3
    env = palaver.make("build-mini-v0")
    env.reset(options={"task": 0})
    drawn = figures.picture(palaver.spec("build-mini-v0"), "reference")
    complete = rgb_array(env.target, env.target, env.palette, env.owner)  # apart from who placed what
    assert np.array_equal(drawn[:400], complete[:400])
    nothing = rgb_array(env.target, np.zeros_like(env.target), env.palette, env.owner)
    assert not np.array_equal(drawn[:400], nothing[:400])


@pytest.mark.parametrize(("id", "team"), DRAWN)
def test_the_picture_in_the_documentation_is_of_today(id, team):
    """Fonts differ a little between versions of matplotlib; a stale picture differs much, or in its size."""
    committed = (figures.FOLDER / pictures(palaver.spec(id))[team]).read_bytes()
    there = np.asarray(Image.open(io.BytesIO(committed)).convert("RGB")).astype(int)
    now = figures.picture(palaver.spec(id), team).astype(int)
    assert there.shape == now.shape
    assert np.mean(np.abs(there - now).max(axis=2) > 60) < 0.004
