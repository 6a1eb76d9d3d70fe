"""Worlds: how they differ, what they look like as rectangles and boxes, and how these are shared out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from palaver.envs.minecraft.blueprint import Cuboid, boxes, layers, parse_layers, share_out
from palaver.envs.minecraft.env import BuildTarget
from palaver.envs.minecraft.housebuild.rules import resource_limits
from palaver.envs.minecraft.world import (
    Box,
    box_of,
    codes,
    counts,
    difference,
    differing,
    empty,
    name,
    palette_of,
)  # fmt: skip

PALETTE = ("stone", "glass", "oak_planks")
worlds = st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5)).flatmap(
    lambda size: arrays(np.int16, size, elements=st.integers(0, 3))
)


def test_differences_by_hand():
    target, built = empty((2, 2, 2)), empty((2, 2, 2))
    target[0] = 1  # four blocks
    built[0, 0] = 1  # two of them
    built[0, 1, 0] = 2  # one of another kind
    built[1, 0, 0] = 1  # one too many
    found = difference(target, built)
    assert found == (5, 2, 1, 1, 1, 4)  # same: two blocks and three of four cells of air
    assert found.iou == pytest.approx(2 / 5)
    assert found.shape_iou == pytest.approx(3 / 5)
    assert not found.complete
    assert difference(target, built, shape_only=True) == (6, 3, 1, 1, 0, 4)
    assert list(differing(target, built, (10, 20, 30))) == [
        ((11, 20, 30), 0, 1), ((10, 21, 30), 1, 2), ((10, 21, 31), 1, 0)
    ]  # fmt: skip


def test_two_empty_worlds_are_alike():
    found = difference(empty((1, 1, 1)), empty((1, 1, 1)))
    assert found.complete
    assert found.iou == found.shape_iou == 1.0


@given(worlds)
def test_a_world_is_as_it_is(cells):
    found = difference(cells, cells)
    assert found.complete
    assert found.same == cells.size
    assert found.covered == found.target == sum(counts(cells, PALETTE).values())


def test_names_and_boxes():
    assert palette_of(["stone", "air", "glass", "stone"]) == ("stone", "glass")
    assert codes(("stone", "glass")) == {"air": 0, "stone": 1, "glass": 2}
    assert [name(code, ("stone", "glass")) for code in range(3)] == ["air", "stone", "glass"]
    box = box_of((2, 3, 4), (-1, 0, 5))
    assert box == Box((-1, 0, 5), (0, 2, 8))


@settings(deadline=None)
@given(worlds, st.booleans())
def test_boxes_hold_every_block_once(cells, up):
    again, times = empty(cells.shape), empty(cells.shape)
    for each in boxes(cells, (1, 2, 3), up=up):
        assert up or each.y1 == each.y2
        box = np.s_[each.x1 - 1 : each.x2, each.y1 - 2 : each.y2 - 1, each.z1 - 3 : each.z2 - 2]
        again[box] = each.code
        times[box] += 1
    assert (again == cells).all()
    assert (times == (cells != 0)).all()


@settings(deadline=None)
@given(worlds)
def test_layers_are_read_as_they_were_written(cells):
    x, y, z = cells.shape
    text = layers(cells, PALETTE, (-2, 60, 5))
    again, palette = parse_layers(f"Words.\n{text}\n", (-2, 60, 5), (x - 3, y + 59, z + 4))
    named = [["air", *PALETTE][code] for code in cells.ravel()]
    assert [["air", *palette][code] for code in again.ravel()] == named


def test_layers_by_hand():
    cells = empty((3, 3, 2))
    cells[:, :2] = 1
    cells[1, 2, 1] = 2
    assert layers(cells, PALETTE) == "y=0 to 1: 0 0 2 1 stone\ny=2: 1 1 1 1 glass"
    assert layers(cells, PALETTE, where=cells == 0) == "y=2: 0 0 2 0 air; 0 1 0 1 air; 2 1 2 1 air"
    assert layers(empty((1, 1, 1)), PALETTE) == ""
    assert Cuboid(0, 0, 0, 2, 1, 1, 1).command(PALETTE) == "/fill 0 0 0 2 1 1 stone"


@settings(deadline=None, max_examples=60)
@given(worlds, st.integers(1, 6))
def test_sharing_out_builds_everything_once_within_the_limits(cells, agents):
    """The proof that the reference team ends with every cell as planned, on any house."""
    limits = resource_limits(BuildTarget(cells, PALETTE), agents)
    for code, c in enumerate(np.bincount(cells.ravel(), minlength=4)[1:], start=1):
        assert limits[code] == int(np.ceil(c / agents)) + int(np.floor(c / (2 * agents)))
        assert agents * limits[code] >= c
    built, times = empty(cells.shape), empty(cells.shape)
    for own in share_out(boxes(cells), agents, limits):
        used = dict.fromkeys(limits, 0)
        for each in own:
            box = np.s_[each.x1 : each.x2 + 1, each.y1 : each.y2 + 1, each.z1 : each.z2 + 1]
            built[box] = each.code
            times[box] += 1
            used[each.code] += each.volume
        assert all(used[code] <= limits[code] for code in limits)
    assert (built == cells).all()
    assert times.max() <= 1
