"""Style of figures: colours for print, and placeholders that become CSS variables in a page."""

from __future__ import annotations

from dataclasses import dataclass

from palaver.text import one_line


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


def label(text: object, max_characters: int = 40) -> str:
    """Return a name for a legend or a title, on one line.

    It is cut at `max_characters`, with `$` and a first `_` escaped.
    """
    return one_line(text, max_characters).replace("$", r"\$").lstrip("_")
