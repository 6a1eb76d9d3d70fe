"""Overlapping texts of a rendered figure."""

from __future__ import annotations

import itertools

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

SLACK = 1.0  # pixels that two boxes may share: descenders and rounding


def overlapping_texts(drawing: Figure) -> list[tuple[str, str]]:
    """Pairs of visible texts whose rendered boxes share more than a border."""
    canvas = FigureCanvasAgg(drawing)
    canvas.draw()
    renderer = canvas.get_renderer()
    outside = _ticks_outside(drawing)
    found = [
        (text.get_text(), box)
        for text in drawing.findobj(Text)
        if text.get_visible() and text.get_text().strip() and text not in outside
        for box in [Text.get_window_extent(text, renderer)]  # of an annotation without its arrow
    ]
    return [(one, other) for (one, a), (other, b) in itertools.combinations(found, 2) if _overlap(a, b)]


def _ticks_outside(drawing: Figure) -> set[Text]:
    """Labels of ticks beyond the limits, which are not drawn."""
    outside: set[Text] = set()
    for axis in (axis for axes in drawing.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        margin = 1e-9 * (high - low)
        for tick in [*axis.get_major_ticks(), *axis.get_minor_ticks()]:
            if not low - margin <= tick.get_loc() <= high + margin:
                outside |= {tick.label1, tick.label2}
    return outside


def _overlap(a: Bbox, b: Bbox) -> bool:
    return min(a.x1, b.x1) - max(a.x0, b.x0) > SLACK and min(a.y1, b.y1) - max(a.y0, b.y0) > SLACK
