"""Cubes as polygons, and their colours: an orthographic view of a world. Pure.

Faces go back to front, so that nearer ones cover farther ones.
"""

from __future__ import annotations

import colorsys
import hashlib
import re
from dataclasses import dataclass
from math import cos, dist, radians, sin

import numpy as np
from numpy.typing import NDArray

from palaver.envs.minecraft.world import Palette

Points = NDArray[np.float64]

# The corners of a face on a unit cube, for the face of the higher coordinate along x, y, z; and how light it is.
_CORNERS = {
    0: ((1, 0, 0), (1, 1, 0), (1, 1, 1), (1, 0, 1)),
    1: ((0, 1, 0), (1, 1, 0), (1, 1, 1), (0, 1, 1)),
    2: ((0, 0, 1), (1, 0, 1), (1, 1, 1), (0, 1, 1)),
}


@dataclass(frozen=True)
class ViewAngle:
    """From where a world is looked at, in degrees; y is up.

    Attributes:
        azimuth: 0 looks from +z along -z with x to the right, 90 from +x.
        elevation: above the ground.
    """

    azimuth: float
    elevation: float

    @property
    def toward(self) -> tuple[float, float, float]:
        """The direction from the world to the eye, as (x, y, z)."""
        a, e = radians(self.azimuth), radians(self.elevation)
        return sin(a) * cos(e), sin(e), cos(a) * cos(e)

    def project(self, points: Points) -> Points:
        """Points (..., 3) onto the picture (..., 2): x to the right, y down."""
        a, e = radians(self.azimuth), radians(self.elevation)
        right = np.array([cos(a), 0.0, -sin(a)])
        down = np.array([sin(e) * sin(a), -cos(e), sin(e) * cos(a)])
        return np.stack([points @ right, points @ down], axis=-1)


FRONT = ViewAngle(azimuth=13, elevation=20)  # of a world that is flat along z
CORNER = ViewAngle(azimuth=212, elevation=30)  # of a house, whose door is on the side of low z


@dataclass(frozen=True)
class Faces:
    """The visible faces of F, in the order of painting.

    Attributes:
        corners: (F, 4, 2) on the picture, in cells.
        cell: (F, 3) the cell each belongs to.
        axis: (F,) 0, 1, 2 for a face across x, y, z.
    """

    corners: Points
    cell: NDArray[np.int64]
    axis: NDArray[np.int64]


def faces(solid: NDArray[np.bool_], ghosts: NDArray[np.bool_], view: ViewAngle) -> Faces:
    """Faces of a world that look toward the eye.

    They are those of the solid cells, and of the ghosts among the others. A face is left out where a solid neighbour
    covers it, or where both cells are ghosts.

    Cells of a grid seen from one direction never cover each other in a circle: sorted by how far each lies along the
    three axes toward the eye, later ones are never behind earlier ones.
    """
    signs = np.array([1 if component > 0 else -1 for component in view.toward])
    corners, cells, axes = [], [], []
    for axis in range(3):
        sign = int(signs[axis])
        behind_air, behind_nothing = ~_shifted(solid, axis, sign), ~_shifted(solid | ghosts, axis, sign)
        cell = np.argwhere(np.where(solid, behind_air, ghosts & behind_nothing))
        unit = np.array(_CORNERS[axis], dtype=np.float64)
        if sign < 0:
            unit[:, axis] = 0
        corners.append(view.project(cell[:, None, :] + unit[None]))
        cells.append(cell)
        axes.append(np.full(len(cell), axis))
    every = Faces(np.concatenate(corners), np.concatenate(cells), np.concatenate(axes))
    order = np.lexsort((every.axis, *(every.cell * signs).T))
    return Faces(every.corners[order], every.cell[order], every.axis[order])


def extent(size: tuple[int, int, int], view: ViewAngle) -> tuple[Points, Points]:
    """The least and the largest picture coordinates of a world's box, (2,) each, in cells."""
    box = view.project(np.array(list(np.ndindex(2, 2, 2)), dtype=np.float64) * np.array(size))
    return box.min(axis=0), box.max(axis=0)


def _shifted(solid: NDArray[np.bool_], axis: int, sign: int) -> NDArray[np.bool_]:
    """True where a cell's neighbour toward the eye along `axis` is solid; outside none is."""
    padded = np.pad(solid, [(1, 1) if a == axis else (0, 0) for a in range(3)])
    start = 1 + sign
    return np.asarray(padded.take(range(start, start + solid.shape[axis]), axis=axis), dtype=np.bool_)


RGB = tuple[float, float, float]  # each 0 to 1

# part of a block's name -> colour; the longest part that a name holds decides
_KNOWN = {
    "white": "#eceef1",
    "orange": "#e08a35",
    "magenta": "#bb5ab3",
    "light_blue": "#6fb4dd",
    "yellow": "#efc443",
    "lime": "#86bd44",
    "pink": "#e59ab4",
    "light_gray": "#b3b6ba",
    "gray": "#6b7078",
    "cyan": "#3b98a3",
    "purple": "#8253b0",
    "blue": "#4660b5",
    "brown": "#7d5638",
    "green": "#5c8239",
    "red": "#a8443d",
    "black": "#2c2e34",
    "planks": "#bd9257",
    "oak": "#bd9257",
    "spruce": "#7a5836",
    "birch": "#dcc88f",
    "jungle": "#b17d59",
    "acacia": "#b9663a",
    "dark_oak": "#54391f",
    "mangrove": "#843c37",
    "cherry": "#e4b6ae",
    "log": "#77593a",
    "stone": "#a4a7ab",
    "cobblestone": "#8c8f93",
    "stone_bricks": "#767d86",
    "stone_stairs": "#b9aa94",
    "deepslate": "#4b4d53",
    "andesite": "#8f9291",
    "diorite": "#cfd0d1",
    "granite": "#a07360",
    "obsidian": "#3a2d56",
    "brick": "#a2604d",
    "bricks": "#a2604d",
    "sandstone": "#dccf9d",
    "sand": "#e0d5a6",
    "quartz": "#eae4db",
    "glass": "#bfe0e8",
    "iron": "#d5d5d5",
    "gold": "#f2cf4a",
    "diamond": "#6ed9d0",
    "emerald": "#41c06b",
    "glowstone": "#e9c37a",
    "dirt": "#85603f",
    "grass": "#75a54b",
    "leaves": "#5c8f3f",
    "water": "#4f7fd0",
    "lava": "#e2661f",
}
_NEAR = 0.16  # colours nearer than this, as a distance in the RGB cube, are moved apart
_SHADES = (0.78, 1.2, 0.6, 1.4)


def colors(palette: Palette) -> list[RGB]:
    """One colour for each block, in the palette's order; no two of a small palette look alike.

    >>> first, second = colors(("oak_planks", "birch_planks"))
    >>> first != second
    True
    """
    chosen: list[RGB] = []
    for block in palette:
        base = _base(block)
        shades = [base, *(shaded(base, factor) for factor in _SHADES)]
        chosen.append(next((shade for shade in shades if all(dist(shade, c) >= _NEAR for c in chosen)), base))
    return chosen


def shaded(color: RGB, factor: float) -> RGB:
    """Darker for factors below 1, lighter above: 2 is white."""
    r, g, b = (c * factor if factor <= 1 else c + (1 - c) * (factor - 1) for c in color)
    return r, g, b


def _base(block: str) -> RGB:
    name = f"_{block.lower()}_"
    parts = [known_part for known_part in _KNOWN if re.search(rf"(?<=[_:]){known_part}(?=_)", name)]
    if parts:
        return rgb(_KNOWN[max(parts, key=len)])
    digest = hashlib.blake2b(block.encode("utf-8", "replace"), digest_size=2).digest()
    return colorsys.hls_to_rgb(digest[0] / 256, 0.5 + digest[1] / 1280, 0.5)


def rgb(code: str) -> RGB:
    """`#rrggbb` as three numbers.

    >>> rgb("#ff0000")
    (1.0, 0.0, 0.0)
    """
    return int(code[1:3], 16) / 255, int(code[3:5], 16) / 255, int(code[5:7], 16) / 255
