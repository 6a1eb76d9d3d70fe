"""Colours of blocks in pictures, chosen to be distinguishable, not to look like any game."""

from __future__ import annotations

import colorsys
import hashlib
import re

from palaver.envs.minecraft.world import Palette

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
        chosen.append(next((shade for shade in shades if all(_distinct(shade, c) for c in chosen)), base))
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


def _distinct(one: RGB, other: RGB) -> bool:
    return sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) >= _NEAR**2


def rgb(code: str) -> RGB:
    """`#rrggbb` as three numbers.

    >>> rgb("#ff0000")
    (1.0, 0.0, 0.0)
    """
    return int(code[1:3], 16) / 255, int(code[3:5], 16) / 255, int(code[5:7], 16) / 255
