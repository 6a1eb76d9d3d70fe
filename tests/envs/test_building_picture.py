"""Pictures of worlds of blocks, against rays and against texts written by hand."""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from palaver.core import ConfigError
from palaver.envs.minecraft.letters import ansi, letters
from palaver.envs.minecraft.projection import CORNER, FRONT, ViewAngle, colors, extent, faces
from palaver.envs.minecraft.rendering import rgb_array

PALETTE = ("white_concrete", "obsidian", "stone_stairs", "stone_bricks", "planks")


def world(*layers: str) -> np.ndarray:
    """Digits, one text per y from the ground up, rows of z parted by blanks; shape (x, y, z)."""
    grid = [[[int(code) for code in row] for row in layer.split()] for layer in layers]
    return np.array(grid, dtype=np.int16).transpose(2, 0, 1)


TARGET = world("111 111", "205 000")
BUILT = world("111 110", "215 002")
OWNER = world("111 220", "212 001")


def test_layers_stand_side_by_side_with_owners_and_faults():
    assert ansi(TARGET, BUILT, PALETTE, OWNER) == (
        "7 of 8 right, 1 missing, 2 extra\n"
        "w white_concrete, o obsidian, s stone_stairs, b stone_bricks, p planks\n"
        "\n"
        "       layer 0  layer 1\n"
        "target www      o.p\n"
        "       www      ...\n"
        "\n"
        "built  www      owp\n"
        "       ww.      ..o\n"
        "\n"
        "who    111      212\n"
        "       22.      ..1\n"
        "\n"
        "wrong  ...      .+.\n"
        "       ..-      ..+"
    )


def test_a_sign_is_seen_from_the_front_and_any_block_may_do():
    target, built = world("11", "01"), world("22", "10")
    lines = ansi(target, built, ("oak", "stone"), built, shape_only=True).splitlines()
    assert lines[0] == "2 of 3 right, 1 missing, 1 extra"
    assert lines[3:] == [
        "target .#", "       ##", "",
        "built  o.", "       ss", "",
        "who    1.", "       22", "",
        "wrong  +-", "       ..",
    ]  # fmt: skip
    assert ansi(target, world("22", "01"), ("oak", "stone"), built).startswith("1 of 3 right, 2 wrong\n")


def test_many_layers_go_on_below():
    tall = np.ones((6, 30, 2), dtype=np.int16)
    text = ansi(tall, tall, ("stone",), tall)
    assert max(map(len, text.splitlines())) <= 100
    assert all(f"layer {y}" in text for y in range(30))


def test_letters_and_colours_are_told_apart():
    names = ("stone", "stone_bricks", "sand", "s", "minecraft:stone", *(f"x{n}" for n in range(40)))
    assert len(set(letters(names)) - {"?"}) == sum(letter != "?" for letter in letters(names)) == 45
    assert letters(("stone",) * 60)[-1] == "?"
    assert letters(("", "__", "9")) == ["a", "b", "c"]
    for palette in (
        PALETTE,
        ("oak_planks", "planks", "birch_planks", "oak_log"),
        ("nothing", "known", "of"),
        ("", "\ud800"),
    ):
        chosen = np.array(colors(palette))
        assert ((chosen >= 0) & (chosen <= 1)).all()
        gaps = np.linalg.norm(chosen[:, None] - chosen[None], axis=-1)[~np.eye(len(chosen), dtype=bool)]
        assert gaps.min() >= 0.16
    assert colors(("white_concrete",)) == colors(("minecraft:white_concrete",))


def test_views_look_from_where_they_say():
    point = np.array([2.0, 3.0, 5.0])
    assert ViewAngle(0, 0).project(point) == pytest.approx([2, -3])  # from +z: x to the right, y up
    assert ViewAngle(90, 0).project(point) == pytest.approx([-5, -3])  # from +x: z to the left
    assert ViewAngle(180, 0).project(point) == pytest.approx([-2, -3])
    assert ViewAngle(0, 90).project(point) == pytest.approx([2, 5])  # from above: a map with z down
    low, high = extent((4, 2, 3), ViewAngle(0, 0))
    assert low == pytest.approx([0, -2])
    assert high == pytest.approx([4, 0])


def test_a_box_shows_three_sides():
    for view in (FRONT, CORNER):
        found = faces(np.ones((4, 2, 3), dtype=bool), np.zeros((4, 2, 3), dtype=bool), view)
        assert np.bincount(found.axis).tolist() == [2 * 3, 4 * 3, 4 * 2]


def test_ghosts_show_their_hull_and_hide_nothing():
    solid, ghosts = np.zeros((2, 1, 1), dtype=bool), np.zeros((2, 1, 1), dtype=bool)
    solid[0], ghosts[1] = True, True
    hull = faces(np.zeros_like(solid), solid | ghosts, FRONT)
    assert len(hull.cell) == 2 + 2 + 1  # above, in front, and at one end
    both = faces(solid, ghosts, FRONT)  # from the right: the ghost stands before the solid cell's right face
    assert sorted(map(tuple, both.cell.tolist())) == [(0, 0, 0)] * 3 + [(1, 0, 0)] * 3


@pytest.mark.parametrize("view", [FRONT, CORNER, ViewAngle(-60, 50), ViewAngle(130, 10)])
def test_what_is_painted_last_is_what_a_ray_meets_first(view):
    rng = np.random.default_rng(3)
    solid = rng.random((4, 5, 3)) < 0.3
    found = faces(solid, np.zeros_like(solid), view)
    toward = np.array(view.toward)
    right, down = view.project(np.eye(3)).T
    low, high = extent(solid.shape, view)
    met = 0
    for spot in rng.uniform(low, high, (300, 2)):
        ray = spot[0] * right + spot[1] * down + np.linspace(12, -12, 4801)[:, None] * toward
        inside = np.floor(ray).astype(int)
        inside = inside[((inside >= 0) & (inside < solid.shape)).all(axis=1)]
        hits = inside[solid[tuple(inside.T)]]
        painted = [n for n, corners in enumerate(found.corners) if _within(corners, spot)]
        if len(hits) and painted:  # a ray along an edge may miss what its polygon holds
            assert found.cell[painted[-1]].tolist() == hits[0].tolist()
            met += 1
        assert bool(len(hits)) == bool(painted) or _near_an_edge(found.corners, spot)
    assert met > 50


def _sides(corners, spot):
    edges = np.roll(corners, -1, axis=0) - corners
    away = spot - corners
    return (edges[:, 0] * away[:, 1] - edges[:, 1] * away[:, 0]) / np.linalg.norm(edges, axis=1)


def _within(corners, spot):
    sides = _sides(corners, spot)
    return (sides > 0).all() or (sides < 0).all()


def _near_an_edge(every, spot):
    return any(np.abs(_sides(corners, spot)).min() < 0.02 for corners in every)


def _red(picture):
    red, green, blue = picture.astype(int).transpose(2, 0, 1)
    return int(((red > 190) & (green < 90) & (blue < 100)).sum())


def test_a_picture_marks_what_is_wrong_and_keeps_its_size():
    right = rgb_array(TARGET, TARGET, PALETTE, OWNER)
    assert right.dtype == np.uint8
    assert right.shape == rgb_array(TARGET, BUILT, PALETTE, OWNER).shape
    nothing = np.zeros_like(TARGET)
    assert right.shape == rgb_array(TARGET, nothing, PALETTE, nothing).shape
    legend = _red(right)  # the mark's own example
    assert 0 < legend < _red(rgb_array(TARGET, BUILT, PALETTE, OWNER))
    assert right.shape[0] > rgb_array(TARGET, TARGET, PALETTE).shape[0]


def test_a_sign_of_other_blocks_is_right_where_any_will_do():
    target, built = world("1110", "1001"), world("2220", "2002")
    palette = ("oak_planks", "stone")
    assert _red(rgb_array(target, built, palette, shape_only=True)) < _red(rgb_array(target, built, palette))


def test_a_picture_is_the_same_in_every_thread_and_quick():
    rng = np.random.default_rng(0)
    target = rng.integers(0, 6, (6, 7, 7)).astype(np.int16)
    built = np.where(rng.random(target.shape) < 0.8, target, 0).astype(np.int16)
    expected = rgb_array(target, built, PALETTE, target)
    start = time.process_time()
    with ThreadPoolExecutor(4) as pool:
        drawn = list(pool.map(lambda _: rgb_array(target, built, PALETTE, target), range(4)))
    assert (time.process_time() - start) / 4 < 1.0
    assert all(np.array_equal(each, expected) for each in drawn)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", ["石", "$\\frac{1}{0}$", "\x1b[2J\u202e", "x" * 5000, "", "\ud800"])
def test_any_block_name_can_be_drawn(name):
    palette = (name, *PALETTE)
    assert rgb_array(TARGET, BUILT, palette).ndim == 3
    assert "\x1b" not in ansi(TARGET, BUILT, palette, OWNER)


def test_without_matplotlib_one_is_told_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ConfigError, match="pip install"):
        rgb_array(TARGET, BUILT, PALETTE)
