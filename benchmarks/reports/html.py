"""Shared parts of static pages: templates and scripts.

Templates escape their values and have the style of reports.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from palaver.text import one_line

HERE = Path(__file__).resolve().parent


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


def asset(name: str) -> Markup:
    """Return a script or style of this folder."""
    return Markup((HERE / name).read_text(encoding="utf-8"))


def script(shared: str, own: Path) -> Markup:
    """Return a shared script and a page's own as one, in a scope of its own."""
    return Markup(f'(() => {{\n"use strict";\n{asset(shared)}{own.read_text(encoding="utf-8")}}})();\n')
