"""`palaver experiment reasoning`: teams compared with one agent on the same problems.

All are trained and evaluated.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from palaver.cli import folders, options
from palaver.cli.output import console, count, errors, note, resumable, say
from palaver.core import need
from palaver.utils.tables import Table

if TYPE_CHECKING:
    from palaver.benchmarks.experiments.reasoning.results import Results

HELP = """Compare reasoning teams with one agent: train, evaluate, print the table.

[bold]Examples[/bold]

[cyan]palaver experiment reasoning --out runs/maths[/cyan]  [dim]# the shipped table, three seeds[/dim]

[cyan]palaver experiment reasoning --out runs/maths --seeds 1 train.steps=10[/cyan]  [dim]# for all runs[/dim]

[cyan]palaver experiment reasoning mine.yaml --out runs/mine --workers 2[/cyan]

The same command resumes an interrupted table. docs/maths.md has measured numbers.
"""


def reasoning(
    plan: Annotated[str, typer.Argument(metavar="TABLE", help="`maths`, or a YAML file.")] = "maths",
    items: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings on top of every recipe.")
    ] = None,
    out: Annotated[Path, options.out_folder("Of the table; the same command resumes it.")] = Path("runs/maths"),
    seeds: Annotated[int, typer.Option(min=1, help="Of each row: 0, 1, and so on.")] = 3,
    workers: Annotated[int, typer.Option(min=1, help="Runs that train at the same time.")] = 1,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the unfinished work, and stop.")] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table in Markdown.")] = False,
    keep: Annotated[Path | None, typer.Option(help="Export the table and its runs here.")] = None,
    explain: options.Explain = False,
) -> None:
    """Train and evaluate the teams of a table, and print it."""
    from palaver.benchmarks.experiments.reasoning import study, table
    from palaver.benchmarks.experiments.reasoning.plan import NAME, read
    from palaver.utils.provenance import provenance

    table_plan = read(*folders.split_recipe(plan, items, NAME))
    if explain:
        options.explain(table_plan)
        return
    need("training", "train")
    work = study.prepare(table_plan, range(seeds), out)
    note(f"{count(len(work.plan.rows), 'row')} of {count(seeds, 'seed')}: {count(len(work.todo), 'run')} to train")
    if dry_run:
        say(Text("nothing was run", style="dim"))
        return
    with resumable("the same command"):
        results, failed = study.run(work, workers, provenance(), note)
    typer.echo(table.markdown(results)) if markdown else show(results)
    drawn = table.draw_picture(results, out)
    if keep is not None:
        note(f"kept in {table.export_runs(out, keep)}")
    (note if markdown else say)(str(drawn))
    if failed:
        errors.print(Text("\n".join(failed), style="red"), soft_wrap=True)
        raise typer.Exit(1)


def show(results: Results) -> None:
    """Print a table."""
    from palaver.benchmarks.experiments.reasoning.table import COLUMNS, caption, cells_of, lines

    rows = [cells_of(line) for line in lines(results)]
    console.print(Table(head=COLUMNS, rows=rows, right=range(len(COLUMNS))[-3:]).rich())
    console.print(Text(caption(results), style="dim"))
