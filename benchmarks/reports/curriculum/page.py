"""The report of a curriculum: one static page, its pictures, its tables."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from palaver.benchmarks.arena import heatmap as picture
from palaver.benchmarks.reports import html as pages
from palaver.benchmarks.reports.charts import Drawing, save_png
from palaver.benchmarks.reports.curriculum import figures
from palaver.benchmarks.reports.curriculum.data import CurriculumReport
from palaver.benchmarks.reports.curriculum.tables import report_tables
from palaver.core import ConfigError
from palaver.text import one_line
from palaver.utils.run_folder import replace_text

PAGE, TABLES = "report.html", "report.md"
HERE = Path(__file__).resolve().parent


def write(report: CurriculumReport, folder: Path) -> list[Path]:
    """Write `report.html`, `report.md`, `curriculum.json` and the figures; returns their paths.

    Raises:
        ConfigError: the folder cannot be written.
    """
    drawings = _drawings(report)
    try:
        paths = [report.save(folder), folder / PAGE, folder / TABLES]
        for stem, drawing in drawings.items():
            paths.append(folder / f"{stem}.png")
            save_png(paths[-1], drawing.title, drawing.size, drawing.draw)
        if report.standings is not None:
            paths.append(folder / "matrix.png")
            picture.draw(report.standings, paths[-1])
        replace_text(folder / PAGE, _page(report, drawings))
        stages = ", ".join(one_line(stage.name) for stage in report.spec.stages)
        heading = f"# {report.spec.format}, {report.spec.size}: {stages}\n\n"
        replace_text(folder / TABLES, heading + "\n".join(table.markdown() for table in report_tables(report)))
    except OSError as error:
        raise ConfigError(f"cannot write {str(error.filename or folder)!r}: {error.strerror}") from error
    return paths


def _drawings(report: CurriculumReport) -> dict[str, Drawing]:
    """Figures by the stems of their files."""
    note = "Over the steps of all stages on one axis, a moving mean."
    drawings = {
        f"curve-{key}": Drawing(name, note, (8, 3.2), partial(figures.draw_curve, report=report, key=key))
        for key, name in figures.curves(report).items()
    }
    if report.standings is not None:
        note = "All students in one arena, with 95 % intervals; dashed lines: the opponents on the first team set."
        drawings["ratings"] = Drawing("Ratings", note, (8, 4), partial(figures.draw_ratings, report=report))
    if report.verdicts:
        note = "Full lines: started from. Dotted lines: taught by. The higher, the stronger; grey: not promoted."
        drawings["family"] = Drawing("Family", note, (8, 4), partial(figures.draw_tree, report=report))
    return drawings


def _page(report: CurriculumReport, drawings: dict[str, Drawing]) -> str:
    values = {
        "report": report,
        "drawings": drawings,
        "tables": report_tables(report),
        "made_with": report.provenance,
        "where": _where(report),
    }
    return pages.render(HERE, "curriculum.html.j2", values)


def _where(report: CurriculumReport) -> str:
    if report.state.stopped:
        return f"stopped: no attempt passed the gate of {report.state.stopped}"
    coming = report.state.next()
    return "finished" if coming is None else f"at {coming[0].name}, attempt {coming[1]}"
