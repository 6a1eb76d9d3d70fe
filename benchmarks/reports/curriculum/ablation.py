"""An ablation as tables and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from palaver.benchmarks.arena.tables import matrix
from palaver.benchmarks.reports.charts import Chart, label, save_png
from palaver.benchmarks.reports.curriculum.figures import draw_elo
from palaver.benchmarks.reports.curriculum.page import rating
from palaver.core import ConfigError
from palaver.trainers.curriculum.ablation import Ablation
from palaver.utils.run_folder import replace_text
from palaver.utils.tables import Table

PICTURE, TABLES = "ablation.png", "ablation.md"


def report_tables(ablation: Ablation) -> list[Table]:
    """Tables of the variants with their ratings, and of the scores between them."""
    sets = [table.teamset for table in ablation.standings.tables]
    rows = [
        [
            variant.value,
            f"{variant.battles:,}",
            f"{variant.decisions:,}",
            f"{variant.steps:,}",
            *(rating(next((p for p in variant.places if p.teamset == name), None)) for name in sets),
        ]
        for variant in ablation.variants
    ]
    note = (
        f"Elo with 95 % intervals, all in one arena. The most decisions learnt from exceed the fewest by "
        f"{100 * ablation.spread:.1f} %."
    )
    first = Table(f"Ablation of {ablation.key}", note, [ablation.key, "battles", "decisions", "steps", *sets], rows)
    return [first, *map(matrix, ablation.standings.tables)]


def write(ablation: Ablation, folder: Path) -> list[Path]:
    """Write `ablation.md` and `ablation.png`; returns their paths.

    Raises:
        ConfigError: the folder cannot be written.
    """
    paths = [folder / TABLES, folder / PICTURE]
    try:
        replace_text(paths[0], "\n".join(table.markdown() for table in report_tables(ablation)))
        title = f"Strength by {ablation.key}, all else and the compute equal"
        save_png(paths[1], title, (8, 4), partial(draw, ablation=ablation))
    except OSError as error:
        raise ConfigError(f"cannot write {str(error.filename or folder)!r}: {error.strerror}") from error
    return paths


def draw(chart: Chart, ablation: Ablation) -> None:
    """Draw Elo over the values with 95 % intervals, a line for each team set.

    Values that are numbers are drawn to scale.
    """
    at = _scale([variant.value for variant in ablation.variants])
    for n, table in enumerate(ablation.standings.tables):
        points = [
            (x, p)
            for x, variant in zip(at, ablation.variants, strict=True)
            for p in variant.places
            if p.teamset == table.teamset
        ]
        shift = 0.008 * (max(at) - min(at)) * n
        xs = [x + shift for x, _ in points]
        draw_elo(chart, xs, [rating for _, rating in points], n, table.teamset)
    chart.labels(label(ablation.key), "Elo")
    chart.ax.set_xticks(at, [label(variant.value, 20) for variant in ablation.variants])


def _scale(values: Sequence[str]) -> list[float]:
    try:
        return [float(value) for value in values]
    except ValueError:
        return [float(n) for n in range(len(values))]
