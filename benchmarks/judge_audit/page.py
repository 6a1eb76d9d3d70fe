"""The report of an audit: one static page, its pictures, its numbers."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from palaver.benchmarks.judge_audit import figures
from palaver.benchmarks.judge_audit.run import JSON, Audit
from palaver.benchmarks.judge_audit.table import Measure
from palaver.benchmarks.reports import html as pages
from palaver.benchmarks.reports.charts import Drawing, save_png
from palaver.core import ConfigError
from palaver.text import clean, one_line
from palaver.utils.run_folder import replace_text

PAGE = "audit.html"
HERE = Path(__file__).resolve().parent
SHARES = (
    "accuracy",
    "calibration",
    "swap",
    "slot",
    "longer",
    "repeat",
    "injection",
    "master key",
    "empty",
    "padding",
    "failures",
)


def formatted(measure: Measure) -> tuple[str, str]:
    """Format the value and its interval for the tables, shares in percent.

    >>> formatted(Measure("slot", "", 0.5, 0.43, 0.575)), formatted(Measure("kappa", "", 0.7014))
    (('50.0 %', '43.0 – 57.5'), ('0.70', ''))
    """
    scale, unit, digits = (100, " %", 1) if measure.key in SHARES else (1, "", 0 if measure.key == "tokens" else 2)
    ends = (
        ""
        if measure.low is None or measure.high is None
        else (f"{scale * measure.low:.{digits}f} – {scale * measure.high:.{digits}f}")
    )
    return f"{scale * (measure.value or 0.0) + 0.0:.{digits}f}{unit}", ends


def write(audit: Audit, folder: Path) -> list[Path]:
    """Write `audit.html`, `audit.json` and the figures; returns their paths.

    Raises:
        ConfigError: the folder cannot be written.
    """
    paths = [folder / PAGE, folder / JSON]
    try:
        folder.mkdir(parents=True, exist_ok=True)
        replace_text(folder / JSON, json.dumps(audit.to_dict(), indent=1) + "\n")
        for stem, drawing in _drawings(audit).items():
            paths.append(folder / f"{stem}.png")
            save_png(paths[-1], f"{drawing.title}: {one_line(audit.judge, 60)}", drawing.size, drawing.draw)
        replace_text(folder / PAGE, html(audit))
    except OSError as error:
        raise ConfigError(f"cannot write {str(error.filename or folder)!r}: {error.strerror}") from error
    return paths


def html(audit: Audit) -> str:
    """The page."""
    values = {
        "found": audit,
        "drawings": _drawings(audit),
        "at_fault": {fault.measure for fault in audit.faults},
        "made_with": audit.made,
    }
    return pages.render(HERE, "audit.html.j2", values, {"clean": clean, "shown": formatted})


def _drawings(audit: Audit) -> dict[str, Drawing]:
    """Figures by the stems of their files."""
    drawings: dict[str, Drawing] = {}
    if audit.bins:
        note = "Of the pairs that people decided: share right against confidence, with the number in each bin."
        draw = partial(figures.draw_reliability, audit=audit)
        drawings["reliability"] = Drawing("Reliability", note, (8.0, 3.0), draw)
    if audit.tried:
        note = "Answers that should win nothing, against the answer that people preferred."
        size = (8.0, 1.0 + 0.24 * len(audit.tried))
        drawings["probes"] = Drawing("Probes", note, size, partial(figures.draw_probes, audit=audit))
    return drawings
