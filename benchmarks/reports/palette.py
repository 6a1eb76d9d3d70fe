"""Colours of all figures and pages, and the one table of looks of algorithms.

A look is a colour and dashes. An algorithm has the same look in every figure, whatever else is drawn in it.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

COLORS = 6  # of the theme, which every kind of colour vision tells apart; lines after that are dashed as well
DASHES: tuple[tuple[float, ...], ...] = ((), (4.5, 1.3), (1.2, 1.2), (6, 1.3, 1.2, 1.3), (9, 2.6))

# The place of an algorithm gives its look; those that are most often drawn together stand first. Append new ones.
ALGORITHM_ORDER = (
    *("magrpo", "ippo", "mappo", "iac", "marloo", "maac", "happo", "cory"),
    *("rae", "mareinforce", "maremax", "grpo", "dr-grpo", "dapo", "gspo", "cispo", "drmas", "atgrpo", "atgrpo-team"),
    *("c3", "madpo", "vdn", "qmix", "marshal", "adalign"),
)


class Look(NamedTuple):
    """Look of a line: number of its colour, and its dashes as lengths in line widths."""

    color: int
    dashes: tuple[float, ...]

    @property
    def style(self) -> Any:
        """The dashes as matplotlib reads them."""
        return (0, self.dashes) if self.dashes else "-"


def nth_look(index: int) -> Look:
    """Look of line `index` of things that are no algorithms."""
    return Look(index % COLORS, DASHES[index // COLORS % len(DASHES)])


def algorithm_look(name: str) -> Look:
    """Look of an algorithm; one that is not in the table has that of its name's hash.

    >>> algorithm_look("magrpo"), algorithm_look("happo")
    (Look(color=0, dashes=()), Look(color=0, dashes=(4.5, 1.3)))
    """
    known = name in ALGORITHM_ORDER
    return nth_look(ALGORITHM_ORDER.index(name) if known else zlib.crc32(name.encode()) % (COLORS * len(DASHES)))


def looks(algorithms: Sequence[str]) -> list[Look]:
    """Looks of several lines, no two of them alike where that is possible.

    A line has the colour of its algorithm; others of the same one are dashed otherwise. If all are of one algorithm, or
    one has none, colours follow the order, because they cannot tell algorithms from each other.

    Args:
        algorithms: of each line; "" if it has none.
    """
    if not all(algorithms) or (len(algorithms) > 1 and len(set(algorithms)) == 1):
        return [nth_look(index) for index in range(len(algorithms))]
    taken: list[Look] = []
    for algorithm in algorithms:
        own = algorithm_look(algorithm)
        others = (nth_look(own.color + COLORS * place) for place in range(len(DASHES)))
        taken.append(next((look for look in (own, *others) if look not in taken), own))
    return taken


@dataclass(frozen=True)
class Theme:
    """Colours of a figure, as matplotlib reads them."""

    ink: str
    muted: str
    grid: str
    series: tuple[str, ...]

    def color(self, index: int) -> str:
        """Return the colour of line `index`, cyclically."""
        return self.series[index % len(self.series)]


PAPER = Theme(
    ink="#1c1f26",
    muted="#646b78",
    grid="#e3e6eb",
    series=("#2864dc", "#d9690d", "#15916b", "#a13cb4", "#c4304f", "#5f7087", "#8a7a00"),
)

# Never seen: an SVG has `var(--name)` in their place, so that one drawing serves a light and a dark page.
PAGE = Theme(
    ink="#010101",
    muted="#010102",
    grid="#010103",
    series=tuple(f"#0102{index:02x}" for index in range(1, len(PAPER.series) + 1)),
)
VARIABLES = {PAGE.ink: "--ink", PAGE.muted: "--muted", PAGE.grid: "--line"} | {
    color: f"--s{index}" for index, color in enumerate(PAGE.series, start=1)
}
