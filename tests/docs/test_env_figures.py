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

TILE = 16  # pixels of a side; the smallest cell of a picture has 15
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


def difference(one: np.ndarray, other: np.ndarray) -> float:
    """Largest difference of the mean colours of a tile, of 255.

    Of matplotlib 3.10.0 and 3.11.2 single pixels differ, because letters do, and no tile by more than 21.
    """
    assert one.shape == other.shape
    height, width = (length - length % TILE for length in one.shape[:2])
    tiles = (one[:height, :width].astype(float) - other[:height, :width]).reshape(
        height // TILE, TILE, width // TILE, TILE, 3
    )
    return float(np.abs(tiles.mean(axis=(1, 3))).max())


@pytest.mark.parametrize(("id", "team"), DRAWN)
def test_the_picture_in_the_documentation_is_of_today(id, team):
    committed = (figures.FOLDER / pictures(palaver.spec(id))[team]).read_bytes()
    there = np.asarray(Image.open(io.BytesIO(committed)).convert("RGB"))
    assert difference(there, figures.picture(palaver.spec(id), team)) < 40


@pytest.mark.parametrize("id", sorted({id for id, _ in DRAWN}))
def test_one_other_block_would_be_noticed(id):
    env = palaver.make(id)
    env.reset(options={"task": 0})
    other = env.target.copy()
    other[tuple(np.argwhere(other)[0])] = 0
    drawn = [rgb_array(env.target, built, env.palette, env.owner) for built in (env.target, other)]
    assert difference(*drawn) > 40
