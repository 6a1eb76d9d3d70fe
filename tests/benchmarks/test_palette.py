"""The one table of looks: fixed for an algorithm, apart for every kind of colour vision, the same on every page."""

from __future__ import annotations

import itertools
import re
from pathlib import Path

import numpy as np
import pytest

from palaver.benchmarks.leaderboard.page import bar_color
from palaver.benchmarks.reports import html
from palaver.benchmarks.reports.palette import (
    ALGORITHM_ORDER,
    COLORS,
    DASHES,
    PAPER,
    Look,
    algorithm_look,
    looks,
    nth_look,
)  # fmt: skip
from palaver.trainers.algorithms.base import ALGORITHMS

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB
SEEN = {
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
}
XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])


def in_lab(color: str, seen: list[list[float]]) -> np.ndarray:
    """CIELAB of a colour as somebody sees it."""
    share = np.array([int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    linear = np.where(share <= 0.04045, share / 12.92, ((share + 0.055) / 1.055) ** 2.4)
    ratio = XYZ @ np.clip(np.array(seen) @ linear, 0, 1) / np.array([0.9505, 1.0, 1.089])
    f = np.where(ratio > 0.008856, np.cbrt(ratio), 7.787 * ratio + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("kind", SEEN)
def test_colours_are_told_apart_by_every_kind_of_colour_vision(kind):
    """A difference of 2.3 is just noticed (CIE 1976); the same colours come again dashed."""
    colors = [in_lab(PAPER.color(nth_look(index).color), SEEN[kind]) for index in range(COLORS)]
    assert min(np.linalg.norm(a - b) for a, b in itertools.combinations(colors, 2)) > 10
    assert len({nth_look(index) for index in range(COLORS * len(DASHES))}) == 30


def test_every_algorithm_has_a_look_of_its_own():
    assert set(ALGORITHM_ORDER) == set(ALGORITHMS)
    assert len(set(map(algorithm_look, ALGORITHMS))) == len(ALGORITHMS)


def test_a_look_does_not_depend_on_what_else_is_drawn():
    assert looks(["ippo"]) == [algorithm_look("ippo")]
    assert looks(["cory", "ippo", "mine:ALGORITHM"])[:2] == [algorithm_look("cory"), algorithm_look("ippo")]
    assert algorithm_look("mine:ALGORITHM") == algorithm_look("mine:ALGORITHM")


def test_lines_of_one_algorithm_differ():
    first, second, other = looks(["ippo", "ippo", "magrpo"])
    assert first == algorithm_look("ippo")
    assert (second.color, other) == (first.color, algorithm_look("magrpo"))
    assert second.dashes != first.dashes
    assert looks(["ippo", "ippo"]) == looks(["", ""]) == [Look(0, ()), Look(1, ())]


def test_pages_have_the_colours_of_the_figures():
    """The light page's variables; some are darker than on paper, for small text."""
    style = (html.HERE / "report.css").read_text()
    viewer = (Path(html.HERE).parent / "viewer" / "viewer.css").read_text()
    named = dict(re.findall(r"--(s\d): (#\w{6})", style.partition("@media")[0]))
    assert len(named) == len(PAPER.series)
    assert named == dict(re.findall(r"--(s\d): light-dark\((#\w{6})", viewer))
    seeing = np.eye(3).tolist()
    for index, color in enumerate(PAPER.series):
        apart = [float(np.linalg.norm(in_lab(color, seeing) - in_lab(other, seeing))) for other in named.values()]
        assert int(np.argmin(apart)) == index


def test_bars_of_the_leaderboard_have_the_colour_of_the_algorithm():
    assert bar_color("recipe:arxiv-magrpo") == "--s1"
    assert bar_color("recipe:arxiv-ippo") == "--s2"
    assert {bar_color(team) for team in ("random", "recipe:../../x", "recipe:", "arxiv-magrpo")} == {"--muted"}
