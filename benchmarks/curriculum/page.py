"""The report of a curriculum: one static page, its pictures, its tables."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from palaver.benchmarks.arena import heatmap as picture
from palaver.benchmarks.curriculum import figures
from palaver.benchmarks.curriculum.story import Story
from palaver.benchmarks.curriculum.tables import grids, markdown
from palaver.benchmarks.reports import html as pages
from palaver.benchmarks.reports.html import Drawing
from palaver.core import ConfigError
from palaver.text import one_line
from palaver.utils.run_folder import replace_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from palaver.benchmarks.reports.plot_style import Theme

PAGE, TABLES = "report.html", "report.md"
HERE = Path(__file__).resolve().parent


def write(story: Story, folder: Path) -> list[Path]:
    """Write `report.html`, `report.md`, `curriculum.json` and the figures; returns their paths.

    Raises:
        ConfigError: the folder cannot be written.
    """
    drawings = _drawings(story)
    try:
        paths = [story.save(folder), folder / PAGE, folder / TABLES]
        for stem, (title, _, size, draw) in drawings.items():
            paths.append(folder / f"{stem}.png")
            pages.save_png(paths[-1], title, size, draw)
        if story.found is not None:
            paths.append(folder / "matrix.png")
            picture.draw(story.found, paths[-1])
        replace_text(folder / PAGE, _page(story, drawings))
        stages = ", ".join(one_line(stage.name) for stage in story.spec.stages)
        heading = f"# {story.spec.format}, {story.spec.size}: {stages}\n\n"
        replace_text(folder / TABLES, heading + markdown(grids(story)))
    except OSError as error:
        raise ConfigError(f"cannot write {str(error.filename or folder)!r}: {error.strerror}") from error
    return paths


def _drawings(story: Story) -> dict[str, Drawing]:
    """Map file stems to title, caption, size in inches, and drawing function."""
    drawings: dict[str, Drawing] = {}
    for key, name in figures.curves(story).items():
        note = "Over the steps of all stages on one axis, a moving mean."
        drawings[f"curve-{key}"] = (
            name,
            note,
            (8, 3.2),
            partial(_curve, story, key),
        )
    if story.found is not None:
        note = "Of all pupils in one arena, with 95 % intervals; broken lines are the opponents on the first team set."
        drawings["ratings"] = ("Ratings", note, (8, 4), lambda ax, look: figures.draw_ratings(ax, story, look))
    if story.verdicts:
        note = "Full lines: started from. Dotted lines: taught by. The higher, the stronger; grey: not promoted."
        drawings["family"] = ("Family", note, (8, 4), lambda ax, look: figures.draw_tree(ax, story, look))
    return drawings


def _curve(story: Story, key: str, ax: Axes, look: Theme) -> None:
    figures.draw_curve(ax, story, key, look)


def _page(story: Story, drawings: dict[str, Drawing]) -> str:
    values = {
        "story": story,
        "panels": pages.panels(drawings),
        "grids": grids(story),
        "made_with": story.provenance,
        "where": _where(story),
    }
    return pages.render(HERE, "curriculum.html.j2", values)


def _where(story: Story) -> str:
    if story.state.stopped:
        return f"stopped: nobody passed the gate of {story.state.stopped}"
    coming = story.state.next()
    return "finished" if coming is None else f"at {coming[0].name}, attempt {coming[1]}"
