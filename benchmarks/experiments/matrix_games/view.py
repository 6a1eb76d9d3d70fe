"""Table of a laboratory, algorithms by games, as a figure, a page and Markdown."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

from palaver.benchmarks.experiments.matrix_games.results import AlgorithmScore, Lab
from palaver.benchmarks.reports import html as pages
from palaver.benchmarks.reports.charts import Cell, Chart, label, save_figure
from palaver.markdown import markdown_table, prose
from palaver.utils.run_folder import replace_text
from palaver.utils.stats.intervals import Interval

PICTURE, PAGE = "lab.png", "lab.html"
HERE = Path(__file__).resolve().parent
READ = (
    "Mean return of the team at the end of training, over the wordings trained on and the seeds, with its 95 % "
    "interval over seeds (Student's t). `10 of 10`: the returns of all seeds lie within 2 % of the range from random "
    "play to the optimum. `7 of 10 near 1.00, 3 near 0.02`: the seeds end in two modes, and the mean is near neither. "
    "Shade: share of the exact optimum, none at 0 or less."
)


def formatted(value: float | None) -> str:
    """Format a return in about five characters; -0.00 is 0.00.

    >>> formatted(7.0), formatted(-33.333), formatted(-0.001), formatted(None)
    ('7.00', '-33.3', '0.00', '–')
    """
    if value is None:
        return "–"
    text = f"{value:.2f}" if abs(value) < 9.995 else f"{value:.1f}"
    return text.removeprefix("-") if not float(text) else text


def shade(score: AlgorithmScore) -> float:
    """Darkness of a cell, 0 to 1."""
    return min(1.0, max(0.0, score.share or 0.0))


def cell(score: AlgorithmScore) -> tuple[str, str]:
    """Text of a cell: the mean or the reason why there is none, then the summary of its seeds."""
    if score.mean is None:
        return ("failed" if score.error else "–"), ""
    return formatted(score.mean), "some failed" if score.error else seeds(score)


def seeds(score: AlgorithmScore) -> str:
    """Summary of a cell's seeds: that all agree, their modes, or the interval of their mean."""
    if score.agreed:
        return f"{score.agreed} of {score.n}"
    if score.modes:
        high, low = score.modes
        return f"{high.seeds} of {score.n} near {formatted(high.mean)}, {low.seeds} near {formatted(low.mean)}"
    return _ends(score.interval)


def _ends(interval: Interval | None) -> str:
    return f"[{formatted(interval[0])}, {formatted(interval[1])}]" if interval else ""


def markdown(lab: Lab) -> str:
    """The table for a page of the documentation."""
    rows = [
        ["optimum", *(formatted(column.optimum) for column in lab.columns.values())],
        ["at random", *(formatted(column.random) for column in lab.columns.values())],
    ]
    for name in lab.algorithms:
        cells = (" ".join(filter(None, cell(lab.score(name, game)))) for game in lab.columns)
        rows.append([f"**{prose(name)}**", *cells])
    return markdown_table(["", *map(prose, lab.columns)], rows, ["---", *("---:" for _ in lab.columns)]) + "\n"


def write(lab: Lab, folder: Path) -> tuple[Path, Path]:
    """Write `lab.html` and `lab.png`; returns their paths."""
    page, picture = folder / PAGE, folder / PICTURE
    draw(lab, picture)
    values = {
        "lab": lab,
        "rows": [  # (algorithm, [(value, spread, shade in percent, share in words)])
            (name, [(*cell(score), round(100 * shade(score)), _share(score)) for score in scores])
            for name, scores in ((name, [lab.score(name, game) for game in lab.columns]) for name in lab.algorithms)
        ],
        "read": READ,
        "caption": _caption(lab),
        "failed": lab.failed,
        "seconds": _seconds(lab),
        "made_with": lab.provenance,
    }
    replace_text(page, pages.render(HERE, "lab.html.j2", values, {"shown": formatted}))
    return page, picture


def draw(lab: Lab, path: Path) -> None:
    """Write the picture."""
    bounds = [
        [Cell(formatted(column.optimum)) for column in lab.columns.values()],
        [Cell(formatted(column.random)) for column in lab.columns.values()],
    ]
    cells = [[_cell(lab.score(name, game)) for game in lab.columns] for name in lab.algorithms]
    rows = ["optimum", "at random", *map(label, lab.algorithms)]
    columns = [label(game).replace("-", "-\n") for game in lab.columns]
    size = (max(7.0, 1.7 + 0.92 * len(columns)), 1.75 + 0.44 * len(rows))
    heatmap = partial(Chart.heatmap, rows=rows, columns=columns, cells=[*bounds, *cells], caption=_caption(lab))
    save_figure(path, "Returns of the laboratory, shaded by share of the optimum", size, heatmap)


def _cell(score: AlgorithmScore) -> Cell:
    value, spread = cell(score)
    if score.mean is None:
        return Cell(value, hatched=True)
    return Cell(value, spread.replace(", ", ",\n", 1) if score.modes else spread, shade(score))


def _caption(lab: Lab) -> str:
    seeds = len({result.seed for result in lab.results})
    runs = sum(result.status == "done" for result in lab.results)
    return (
        f"Mean undiscounted team return after training, {seeds} seed{'s' * (seeds > 1)}: 95 % interval (Student's t), "
        f"`n of n` where all agree, or two modes. {runs} runs, {lab.cpu_minutes:.1f} CPU minutes."
    )


def _share(score: AlgorithmScore) -> str:
    if score.error:
        return score.error
    share = "" if score.share is None else f"{100 * score.share:.0f} % of the optimum, "
    ends = [
        f"{name} {_ends(interval)}"
        for name, interval in (("Student's t", score.interval), ("bootstrap", score.bootstrap))
        if interval
    ]
    return ", ".join([f"{share}{score.n} run{'s' * (score.n > 1)}", *ends])


def _seconds(lab: Lab) -> Mapping[str, float]:
    """Algorithm -> mean CPU seconds of a run."""
    done = [result for result in lab.results if result.status == "done"]
    spent = {name: [result.cpu_s for result in done if result.algorithm == name] for name in lab.algorithms}
    return {name: sum(seconds) / len(seconds) for name, seconds in spent.items() if seconds}
