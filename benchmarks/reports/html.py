"""Shared parts of static pages: templates, panels of figures, hashes of scripts.

Templates escape their values and have the style of reports.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from palaver.benchmarks.reports import plot_style as theme
from palaver.benchmarks.reports.charts import Panel
from palaver.text import one_line

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from palaver.benchmarks.reports.plot_style import Theme

HERE = Path(__file__).resolve().parent
Draw = Callable[["Axes", "Theme"], None]
Drawing = tuple[str, str, tuple[float, float], Draw]  # title, how to read it, size in inches, what draws it


def render(
    folder: Path, template: str, values: Mapping[str, Any], filters: Mapping[str, Callable[..., Any]] | None = None
) -> str:
    """Render a template of `folder` with autoescaping.

    It has the style of reports as `style`, and the filter `line`.
    """
    environment = Environment(
        loader=FileSystemLoader([folder, HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"line": one_line, **(filters or {})}
    style = Markup((HERE / "report.css").read_text(encoding="utf-8"))
    return environment.get_template(template).render(style=style, **values)


def panels(drawings: Mapping[str, Drawing]) -> list[Panel]:
    """Render the drawings, by file stem, as panels of a page."""
    rendered = []
    for stem, (title, note, size, draw) in drawings.items():
        drawing = theme.figure(*size)
        draw(drawing.add_subplot(), theme.PAGE)
        rendered.append(Panel(title, note, Markup(theme.svg(drawing, stem, title))))
    return rendered


def save_png(path: Path, title: str, size: tuple[float, float], draw: Draw) -> None:
    """Write one drawing with its title as PNG.

    Raises:
        OSError: it cannot be written.
    """
    drawing = theme.figure(*size)
    theme.entitle(drawing, title)
    draw(drawing.add_subplot(), theme.PAPER)
    theme.save_png(drawing, str(path))


def content_hash(text: str) -> str:
    """Return the CSP hash source of an inlined script or style: `sha256-` and base-64 digest."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
