"""`palaver compare`: comparison of finished runs, as a table and a figure."""

from __future__ import annotations

import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from palaver.cli import options
from palaver.cli.output import console, count, note, say, table
from palaver.core import ConfigError, need

if TYPE_CHECKING:
    from palaver.benchmarks.comparison.groups import Comparison

PICTURE = "compare.png"
FORMATS = (".png", ".svg", ".html")
HELP = """Compare finished runs: a table, paired tests, and curves of any metric.

[bold]Examples[/bold]

[cyan]palaver compare runs[/cyan]  [dim]# all finished runs in a folder[/dim]

[cyan]palaver compare runs/magrpo-0 runs/magrpo-1 runs/ippo-0 --time cpu --out ippo.png[/cyan]

[cyan]palaver compare runs --metric reward/mean,eval/mean --out runs.html[/cyan]  [dim]# to point at and zoom[/dim]

[cyan]palaver compare runs --by team --markdown[/cyan]

[cyan]palaver compare runs --keep docs/runs/comparison[/cyan]  [dim]# copies the kilobytes that this needs[/dim]

Runs of one algorithm are repeats that differ in their seed; bands are 95 % intervals of their mean. Each environment is
drawn apart, and in the table those with different rewards are compared as shares of the maximum of each. Runs that were
evaluated on different tasks are refused.
"""


class Time(StrEnum):
    """Time axis of the right panel."""

    wall = "wall"
    cpu = "cpu"


def compare(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders, or folders of run folders.")],
    out: Annotated[
        Path | None,
        options.out_file("Figure or page: .png, .svg, .html.", f"{PICTURE} in the folder the runs lie in"),
    ] = None,
    metric: Annotated[
        str, typer.Option(help="Keys of metrics.jsonl to draw, as KEY,KEY; those of evaluations as eval/KEY.")
    ] = "reward/mean",
    by: Annotated[
        str,
        typer.Option(help="Keys that define the groups, as KEY,KEY: algorithm, env, team, or of the config."),
    ] = "algorithm",
    time: Annotated[Time, typer.Option(help="The seconds drawn: wall, or CPU of the main process.")] = Time.wall,
    window: Annotated[
        int | None, typer.Option(min=1, help="Updates in the moving means.", show_default="a tenth of the shortest run")
    ] = None,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table in Markdown.")] = False,
    keep: Annotated[
        Path | None, typer.Option(help="Export configs and metrics of the runs here, in GROUP-SEED each.")
    ] = None,
) -> None:
    """Compare finished runs."""
    from palaver.benchmarks.comparison import finished_runs as trials
    from palaver.benchmarks.comparison import groups as comparing

    need("a comparison", "train", "matplotlib", "jinja2")
    if out is not None and out.suffix.lower() not in FORMATS:
        raise ConfigError(f"--out: a file that ends with {', '.join(FORMATS)}, got {str(out)!r}")
    options.make_parent(out)
    selected, left = trials.find(runs)
    compared = comparing.compare(selected, by, window)
    for line in left:
        note(f"left out: {line}")
    from palaver.benchmarks.comparison.charts import write_panels
    from palaver.benchmarks.comparison.curves import panels
    from palaver.benchmarks.comparison.export import export_runs as keep_runs
    from palaver.benchmarks.comparison.page import write_page
    from palaver.benchmarks.comparison.table import markdown as in_markdown

    metrics = [key.strip() for key in metric.split(",")]
    drawn, remarks = panels(compared, metrics)
    exported = keep_runs(compared.groups, keep, metrics) if keep is not None else []
    target = out or Path(os.path.commonpath([trial.run.folder.resolve().parent for trial in selected])) / PICTURE
    if target.suffix.lower() == ".html":
        write_page(compared, drawn, target, remarks)
    else:
        write_panels(drawn, compared.title, str(target), f"{time.value}_s")
    typer.echo(in_markdown(compared)) if markdown else show(compared, "wall s" if time is Time.wall else "CPU s")
    for line in remarks:
        note(f"note: {line}")
    if exported:
        size = sum(path.stat().st_size for folder in exported for path in folder.iterdir())
        note(f"kept {count(len(exported), 'run')} in {keep}, {size / 1024:.0f} KiB")
    (note if markdown else say)(str(target))


def show(comparison: Comparison, time: str) -> None:
    """Print a comparison as a table, and its differences as lines."""
    from palaver.benchmarks.comparison.table import captions, columns, differences, rows

    say(Text(comparison.title, style="bold"))
    names = columns(comparison, time)
    grid = table(*names, right=("seeds", "most", "samples", time))
    for row in rows(comparison):
        grid.add_row(*(Text(row[name], style="bold" if name in (comparison.by, "reward") else "") for name in names))
    console.print(grid)
    for line in [*captions(comparison), *differences(comparison)]:
        console.print(Text(line, style="dim"))
