"""Overlapping texts of a rendered figure."""

from __future__ import annotations

import itertools
import math

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Affine2D
from numpy.typing import NDArray

SLACK = 1.0  # pixels that two boxes may share: descenders and rounding


def overlapping_texts(drawing: Figure) -> list[tuple[str, str]]:
    """Pairs of visible texts whose rendered boxes share more than a border."""
    canvas = FigureCanvasAgg(drawing)
    canvas.draw()
    outside = _ticks_outside(drawing)
    found = [
        (text.get_text(), _corners(text, canvas.get_renderer()))
        for text in drawing.findobj(Text)
        if text.get_visible() and text.get_text().strip() and text not in outside
    ]
    return [(one, other) for (one, a), (other, b) in itertools.combinations(found, 2) if _overlap(a, b)]


def texts_outside(drawing: Figure) -> list[str]:
    """Visible texts that the figure's border cuts off."""
    canvas = FigureCanvasAgg(drawing)
    canvas.draw()
    width, height = canvas.get_width_height()
    hidden = _ticks_outside(drawing)
    corners = {
        text: _corners(text, canvas.get_renderer())
        for text in drawing.findobj(Text)
        if text.get_visible() and text.get_text().strip() and text not in hidden
    }
    return [
        text.get_text()
        for text, box in corners.items()
        if box.min() < -SLACK or box[:, 0].max() > width + SLACK or box[:, 1].max() > height + SLACK
    ]


def _corners(text: Text, renderer: object) -> NDArray[np.float64]:
    """Corners of a text's box, shape (4, 2); of one turned about its anchor those of the turned box."""
    angle = text.get_rotation()
    turned = angle % 90 != 0 and text.get_rotation_mode() == "anchor"
    if turned:
        text.set_rotation(0)
    box = Text.get_window_extent(text, renderer)  # of an annotation without its arrow
    if turned:
        text.set_rotation(angle)
    corners = np.array([(box.x0, box.y0), (box.x1, box.y0), (box.x1, box.y1), (box.x0, box.y1)])
    anchor = text.get_transform().transform(text.get_unitless_position())
    return Affine2D().rotate_deg_around(*anchor, angle).transform(corners) if turned else corners


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


def _overlap(a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    """Return False where a line along an edge of either box separates them."""
    for box in (a, b):
        for edge in (box[1] - box[0], box[3] - box[0]):
            normal = edge / max(math.hypot(*edge), 1e-9)
            one, other = a @ normal, b @ normal
            if min(one.max(), other.max()) - max(one.min(), other.min()) <= SLACK:
                return False
    return True
