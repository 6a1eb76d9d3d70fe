"""Cubes as polygons: an orthographic view of a world. Pure.

Faces go back to front, so that nearer ones cover farther ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, radians, sin

import numpy as np
from numpy.typing import NDArray

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
