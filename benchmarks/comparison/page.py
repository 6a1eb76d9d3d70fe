"""Page of a comparison: one HTML file with charts to point at and zoom, and tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from palaver.benchmarks.comparison import differences, table
from palaver.benchmarks.comparison.curves import AXES, Array, Panel, band_note
from palaver.benchmarks.comparison.groups import Comparison
from palaver.benchmarks.reports import html as pages
from palaver.benchmarks.reports.inline import content_hash, island
from palaver.text import one_line
from palaver.utils.run_folder import replace_text

HERE = Path(__file__).resolve().parent


def write_page(comparison: Comparison, drawn: Sequence[Panel], path: Path, notes: Sequence[str] = ()) -> None:
    """Write the page.

    Args:
        comparison: the groups.
        drawn: its panels.
        path: of the file.
        notes: remarks for the reader, below the table.
    """
    script = pages.script("chart.js", HERE / "compare.js")
    values: dict[str, Any] = {
        "title": comparison.title,
        "band": band_note(drawn),
        "axes": AXES,
        "rows": table.rows(comparison),
        "captions": [*table.captions(comparison), *notes],
        "tests": differences.paired_tests(comparison),
        "tests_note": table.TESTS_NOTE,
        "settings": differences.settings_that_differ(comparison),
        "names": [group.name for group in comparison.groups],
        "data": Markup(island([panel_data(panel) for panel in drawn])),
        "chart_style": pages.asset("chart.css"),
        "script": script,
        "script_hash": content_hash(script),
    }
    replace_text(path, pages.render(HERE, "comparison.html.j2", values, {"change": table.change_text}))


def panel_data(panel: Panel) -> dict[str, Any]:
    """A panel as `chart.js` reads it."""
    return {
        "title": f"{panel.env}: {panel.label}",
        "label": panel.label,
        "axes": AXES,
        "range": list(panel.range),
        "curves": [
            {
                "name": one_line(curve.name, 40),
                "color": curve.look.color,
                "dashes": list(curve.look.dashes),
                "at": {axis: _list(values) for axis, values in curve.at.items()},
                "mean": _list(curve.mean),
                "band": None if curve.band is None else [_list(end) for end in curve.band],
            }
            for curve in panel.curves
        ],
    }


def _list(values: Array) -> list[float | None]:
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values]
