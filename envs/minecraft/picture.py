"""Pictures of a target and of the built world.

They are in three dimensions and layer by layer, with wrong cells marked. `rgb_array` needs matplotlib, which
`palaver[train]` brings; it uses none of pyplot's state, may be called from any thread, and gives the same picture for
the same worlds.
"""

from __future__ import annotations

import threading

import numpy as np
from numpy.typing import NDArray

from palaver.core import ConfigError
from palaver.envs.minecraft.canvas import Canvas
from palaver.envs.minecraft.letters import ansi
from palaver.envs.minecraft.panels import PictureContents, draw
from palaver.envs.minecraft.world import Cells, Palette

__all__ = ["ansi", "rgb_array"]

_LOCK = threading.Lock()  # matplotlib's fonts are not made for several threads


def rgb_array(
    target: Cells, built: Cells, palette: Palette, owner: Cells | None = None, shape_only: bool = False
) -> NDArray[np.uint8]:
    """A picture of the target and of the built world. Shape (height, width, 3).

    Wrong cells have a red frame: a ghost marks a missing block, and in the layers a dot shows what belongs
    there. The size depends on the shape of the world, on the palette, and on whether `owner` is given, alone.

    Args:
        target: codes, shape (x, y, z).
        built: likewise.
        palette: block names.
        owner: number of the agent that placed each cell, 0 for none; None leaves the agents out.
        shape_only: any block counts for any other.

    Raises:
        ConfigError: matplotlib is not installed.
    """
    try:
        import matplotlib  # noqa: F401  # only to say plainly that it is missing
    except ImportError as error:
        raise ConfigError("render_mode='rgb_array' needs matplotlib: pip install 'palaver[train]'") from error
    canvas = Canvas()
    draw(canvas, PictureContents(target, built, palette, owner, shape_only))
    with _LOCK:
        return canvas.pixels()
