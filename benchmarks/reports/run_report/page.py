"""Report of a run on one page: configuration, improvement, samples, reproduction commands.

`write` makes `report.html` (a single static file: no script, nothing loaded from elsewhere) and `curve.png` in the run
folder, and `episodes.html` with all episodes. Model text is untrusted: the template escapes everything, unsafe
characters are replaced, and the page forbids scripts by its own content policy.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

from palaver.benchmarks.reports import html as pages
from palaver.benchmarks.reports.charts import Drawing, save_png
from palaver.benchmarks.reports.frames import frame_renderer
from palaver.benchmarks.reports.run_folder import RunFolder, read
from palaver.benchmarks.reports.run_report import curves
from palaver.benchmarks.reports.run_report.samples import samples
from palaver.benchmarks.reports.summary import (
    comparison,
    interval,
    key_figures,
    made_with,
    max_reward,
    reproduce,
    score,
    status,
    wall_time,
)
from palaver.benchmarks.viewer import page as viewer
from palaver.text import clean, one_line
from palaver.utils.run_folder import replace_text

HERE = Path(__file__).resolve().parent
REPORT, CURVE = "report.html", "curve.png"
COMPARISON, CURVES = "comparison.html", "comparison.png"


def write(run: RunFolder | Path | str, n_samples: int = 4) -> Path:
    """Write `report.html`, `curve.png` and `episodes.html` to a run folder; return the first.

    Raises:
        CheckpointError: the folder is not a run folder.
    """
    run = run if isinstance(run, RunFolder) else read(run)
    viewed = viewer.write(run, choices=viewer.Choices(pictures=2 * n_samples))
    curves.write_png(run, run.folder / CURVE, max_reward(run), _title(run))
    return _save(run.folder / REPORT, "report.html.j2", page(run, n_samples, viewed))


def compare(runs: Sequence[RunFolder], out: Path) -> Path:
    """Write a page and a picture with several runs' curves overlaid into `out`.

    Returns the path of the page.
    """
    names = _names([run.folder.resolve() for run in runs])
    out.mkdir(parents=True, exist_ok=True)
    draw = partial(curves.draw_comparison, runs=runs, names=names)
    save_png(out / CURVES, "", (9, 4.2), draw)
    rows = [(name, run, score(run), status(run), wall_time(run)) for name, run in zip(names, runs, strict=True)]
    curve = Drawing("Reward of several runs", "", (10, 4), draw).svg("comparison")
    return _save(out / COMPARISON, "comparison.html.j2", {"rows": rows, "curve": curve})


def _names(folders: Sequence[Path]) -> list[str]:
    """Return the folders' names, or if two are equal their paths relative to the common parent."""
    names = [folder.name for folder in folders]
    if len(set(names)) == len(set(folders)):
        return names
    common = os.path.commonpath([folder.parent for folder in folders])
    return [str(folder.relative_to(common)) for folder in folders]


def page(run: RunFolder, n_samples: int, viewed: viewer.WrittenPage) -> dict[str, Any]:
    """Values for the template."""
    max_return = max_reward(run)
    drawing = frame_renderer(run)
    return {
        "run": run,
        "title": one_line(run.name, 80),
        "status": status(run),
        "score": score(run),
        "limit": max_return,
        "figures": key_figures(run),
        "curve": curves.reward(run, max_return).svg("reward") if run.train or run.evals else None,
        "shares": curves.share_panels(run),
        "panels": curves.panels(run),
        "measured": curves.measured(run),
        "tables": comparison(run),
        "samples": samples(run, n_samples, drawing),
        "viewed": viewed,
        "not_drawn": drawing.notes,
        "config_text": clean(run.config_text),
        "made_with": made_with(run),
        "reproduce": [clean(line) for line in reproduce(run)],
    }


def _title(run: RunFolder) -> str:
    evaluation = score(run)
    if evaluation.before and evaluation.after:
        return (
            f"{run.name}: {evaluation.before.mean:.2f} → {evaluation.after.mean:.2f} in {evaluation.after.step} steps"
        )
    return f"{run.name}: {run.step} steps"


def _save(path: Path, template: str, values: dict[str, Any]) -> Path:
    text = pages.render(HERE, template, values, {"interval": lambda point: interval(point.low, point.high, 2)})
    replace_text(path, text)
    return path
