"""`palaver curriculum`: a student that learns from battles in stages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.progress import Progress
from rich.text import Text

from palaver.cli import folders
from palaver.cli.commands.report import need_plots
from palaver.cli.output import console, errors, fail, note, say, table
from palaver.utils.progress import progress_columns

if TYPE_CHECKING:
    from palaver.benchmarks.curriculum.rehearsal import Forecast
    from palaver.benchmarks.curriculum.run import CurriculumProgress
    from palaver.benchmarks.curriculum.spec import Curriculum
    from palaver.benchmarks.curriculum.tables import Grid

HELP = """Let a pupil learn from battles, stage after stage, until gates let it pass.

[bold]Examples[/bold]

[cyan]palaver curriculum recipes[/cyan]  [dim]# what is shipped[/dim]

[cyan]palaver curriculum run gen1ou-nano --dry-run[/cyan]  [dim]# battles, steps and time[/dim]

[cyan]palaver curriculum run gen1ou-nano --out runs/battler[/cyan]  [dim]# killed, the same command goes on[/dim]

[cyan]palaver curriculum ablate gen1ou-nano --vary mix.old=0,0.5 --out runs/mixes[/cyan]
"""
File = Annotated[str, typer.Argument(metavar="FILE", help="A recipe's name, a YAML file, or a curriculum's folder.")]
Pairs = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="As stages.first.battles=60; stages go by name.")
]
WIDE = 160  # columns of a table that goes into a file
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print the plan and the estimated time.")]

app = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode="rich")


def register(parent: typer.Typer) -> None:
    """Add the commands."""
    parent.add_typer(app, name="curriculum")


@app.command("recipes")
def shipped() -> None:
    """List the shipped curricula."""
    from palaver.benchmarks.curriculum.read import recipes

    grid = table("recipe", "what it does")
    for name, summary in recipes().items():
        grid.add_row(Text(name, style="bold", no_wrap=True), Text(summary))
    console.print(grid)


@app.command("run")
def run(
    file: File,
    pairs: Pairs = None,
    out: Annotated[Path | None, typer.Option(help="Folder.", show_default="runs/FILE-TIME")] = None,
    dry_run: DryRun = False,
    rehearse: Annotated[bool, typer.Option(help="Rehearse first, to estimate the time and find mistakes.")] = True,
) -> None:
    """Run or resume a curriculum."""
    from palaver.benchmarks.curriculum import run as runner
    from palaver.benchmarks.curriculum.read import load
    from palaver.benchmarks.curriculum.rehearsal import rehearse as forecast
    from palaver.benchmarks.curriculum.workshop import ArenaBackend

    need_plots()
    spec = load(file, pairs or [])
    folder = out or (Path(file) if Path(file).is_dir() else folders.fresh(Path(file).stem))
    shop = ArenaBackend(spec)
    shop.check()
    fresh = not (folder / "curriculum.yaml").is_file()
    _plan(spec, forecast(spec, shop) if rehearse and (fresh or dry_run) else None)
    if dry_run:
        say(Text("nothing was kept", style="dim"))
        return
    try:
        with _bar(folder, "curriculum") as watch:
            state = runner.run(spec, folder, shop, watch)
    except KeyboardInterrupt as stop:
        fail(f"interrupted; go on with: palaver curriculum run {folder}")
        raise typer.Exit(130) from stop
    _report(folder)
    if state.stopped:
        fail(f"nobody passed the gate of {state.stopped}; the stages after it were not begun")
        raise typer.Exit(1)


@app.command("ablate")
def ablate(
    file: File,
    vary: Annotated[str, typer.Option(help="key=a,b,c, as mix.synthetic=0,0.25,0.5,1.0; any key of the curriculum.")],
    out: Annotated[Path, typer.Option(help="Folder; the same command resumes.")],
    pairs: Pairs = None,
) -> None:
    """Run a curriculum with several values of one key, at equal size and compute.

    Gates are left out.
    """
    from palaver.benchmarks.curriculum import ablation, sweep
    from palaver.benchmarks.curriculum.read import changed
    from palaver.benchmarks.curriculum.workshop import ArenaBackend

    need_plots()
    key, variants = ablation.plan(changed(file, pairs or []), vary)
    for spec in variants.values():
        ArenaBackend(spec).check()
    first = next(iter(variants.values()))
    try:
        with _bar(out, "ablation") as watch:
            result = ablation.ablate(key, variants, out, ArenaBackend(first), watch, note)
    except KeyboardInterrupt as stop:
        fail("interrupted; the same command goes on")
        raise typer.Exit(130) from stop
    _grids(sweep.grids(result))
    for path in sweep.write(result, out):
        say(str(path))


@app.command("report")
def report(folder: Annotated[Path, typer.Argument(help="Of a curriculum, or of an ablation.")]) -> None:
    """Rewrite the page and the figures, and print the tables."""
    need_plots()
    from palaver.benchmarks.curriculum import ablation, sweep

    if (folder / ablation.RESULTS).is_file():
        result = ablation.load(folder)
        _grids(sweep.grids(result))
        for path in sweep.write(result, folder):
            say(str(path))
        return
    _report(folder)


def _report(folder: Path) -> None:
    from palaver.benchmarks.curriculum import page, story, tables
    from palaver.utils.provenance import provenance

    result = story.read(folder, provenance())
    _grids(tables.grids(result))
    for path in page.write(result, folder):
        say(str(path))


def _grids(grids: Sequence[Grid]) -> None:
    room = console if console.is_terminal else Console(file=console.file, highlight=False, width=WIDE)
    for grid in grids:
        output = table(*grid.head, title=grid.title)
        for row in grid.rows:
            output.add_row(*map(Text, row))
        output.columns[0].no_wrap = True  # do not break names
        room.print(output)
        say(Text(grid.note + "\n", style="dim"))


def _plan(spec: Curriculum, forecast: Forecast | None) -> None:
    """Print the plan, and the estimate of a rehearsal.

    The plan is battles and rating games; the estimate is of decisions, steps and time.
    """
    from palaver.benchmarks.curriculum.rehearsal import plan

    _grids([plan(spec, forecast)])


@contextmanager
def _bar(folder: Path, what: str) -> Iterator[CurriculumProgress]:
    """Live bar over the progress of a phase; verdicts are printed above it."""
    from palaver.benchmarks.curriculum.records import StageAttempt
    from palaver.benchmarks.curriculum.run import CurriculumProgress
    from palaver.benchmarks.curriculum.state import State

    errors.print(Text.assemble(f"{what} ", (str(folder), "bold")), soft_wrap=True)
    with Progress(*progress_columns("{task.description}"), console=errors) as progress:
        task = progress.add_task("", total=None, shown="")

        def tick(text: str, total: int) -> None:
            progress.update(task, advance=1, total=total, shown=text)

        def verdict(attempt: StageAttempt, state: State) -> None:
            where = "goes on" if attempt.stage in state.promoted else "stops" if state.stopped else "tries again"
            progress.print(Text(f"{attempt.pupil} {where}", style="bold"))
            for check in attempt.checks:
                style = "green" if check.passed else "red"
                progress.print(Text(f"  {'reached' if check.passed else 'missed'}: {check.asks}", style=style))

        yield CurriculumProgress(
            lambda name: progress.reset(task, description=name, total=None, shown=""), tick, verdict
        )
