"""`palaver experiment curriculum`: a student that learns from battles in stages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from palaver.cli import folders, options
from palaver.cli.output import errors, note, print_error, print_tables, resumable, say
from palaver.core import need
from palaver.utils.progress import Bar

if TYPE_CHECKING:
    from palaver.trainers.curriculum.run import CurriculumProgress

HELP = """Train a student on battles in stages; a gate ends each stage.

[bold]Examples[/bold]

[cyan]palaver experiment curriculum run[/cyan]  [dim]# the shipped curricula[/dim]

[cyan]palaver experiment curriculum run gen1ou-nano --dry-run[/cyan]  [dim]# battles, steps and time[/dim]

[cyan]palaver experiment curriculum run gen1ou-nano --out runs/battler[/cyan]  [dim]# the same command resumes it[/dim]

[cyan]palaver experiment curriculum ablate gen1ou-nano --vary mix.old=0,0.5 --out runs/mixes[/cyan]
"""
FILE_HELP = "A recipe's name, a YAML file, or a curriculum's folder."
File = Annotated[str, typer.Argument(metavar="FILE", help=FILE_HELP)]
Pairs = Annotated[
    list[str] | None, typer.Argument(metavar="KEY=VALUE", help="As stages.first.battles=60; stages go by name.")
]

app = options.group(help=HELP)


@app.command("run")
def run(
    file: Annotated[str | None, typer.Argument(metavar="FILE", help=FILE_HELP)] = None,
    pairs: Pairs = None,
    out: options.Out = None,
    dry_run: options.DryRun = False,
    explain: options.Explain = False,
    rehearse: Annotated[bool, typer.Option(help="Rehearse first, to estimate the time and find mistakes.")] = True,
) -> None:
    """Run or resume a curriculum. Without one, list the shipped ones."""
    if file is None:
        options.list_recipes("curriculum")
        return
    from palaver.trainers.curriculum import forecast
    from palaver.trainers.curriculum import run as runner
    from palaver.trainers.curriculum.backend import Backend
    from palaver.trainers.curriculum.config import load

    spec = load(file, pairs or [])
    if explain:
        options.explain(spec)
        return
    need("a curriculum", "train")
    folder = folders.experiment(file, out)
    backend = Backend(spec)
    backend.check()
    fresh = not (folder / "curriculum.yaml").is_file()
    estimate = forecast.rehearse(spec, backend) if rehearse and (fresh or dry_run) else None
    print_tables(forecast.plan(spec, estimate))
    if dry_run:
        say(Text("nothing was kept", style="dim"))
        return
    with resumable(f"palaver experiment curriculum run {folder}"), _bar(folder, "curriculum") as progress:
        state = runner.run(spec, folder, backend, progress)
    report(folder)
    if state.stopped:
        print_error(f"no attempt passed the gate of {state.stopped}; the later stages were not started")
        raise typer.Exit(1)


@app.command("ablate")
def ablate(
    file: File,
    vary: Annotated[str, typer.Option(help="key=a,b,c, as mix.synthetic=0,0.25,0.5,1.0; any key of the curriculum.")],
    out: Annotated[Path, options.out_folder("Of the runs; the same command resumes them.")],
    pairs: Pairs = None,
) -> None:
    """Run a curriculum with several values of one key, at equal size and compute, without gates."""
    from palaver.trainers.curriculum import ablation
    from palaver.trainers.curriculum.backend import Backend
    from palaver.utils.config import values

    need("a curriculum", "train")
    key, variants = ablation.plan(values("curriculum", file, pairs or []), vary)
    for spec in variants.values():
        Backend(spec).check()
    first = next(iter(variants.values()))
    with resumable("the same command"), _bar(out, "ablation") as progress:
        ablation.ablate(key, variants, out, Backend(first), progress, note)
    report(out)


@app.command("report")
def report(folder: Annotated[Path, typer.Argument(help="Of a curriculum, or of an ablation.")]) -> None:
    """Rewrite the page and the figures, and print the tables."""
    need("a report", "train", "jinja2", "matplotlib")
    from palaver.benchmarks.reports.curriculum import data, page
    from palaver.trainers.curriculum import ablation
    from palaver.utils.provenance import provenance

    if (folder / ablation.RESULTS).is_file():
        varied = ablation.load(folder)
        tables, paths = page.ablation_tables(varied), page.write_ablation(varied, folder)
    else:
        result = data.read(folder, provenance())
        tables, paths = page.report_tables(result), page.write(result, folder)
    print_tables(*tables)
    say("\n".join(map(str, paths)))


@contextmanager
def _bar(folder: Path, what: str) -> Iterator[CurriculumProgress]:
    """Live bar over the progress of a phase; verdicts are printed above it."""
    from palaver.trainers.curriculum.run import CurriculumProgress
    from palaver.trainers.curriculum.state import StageAttempt, State

    errors.print(Text.assemble(f"{what} ", (str(folder), "bold")), soft_wrap=True)
    with Bar("", errors) as progress:

        def tick(text: str, total: int) -> None:
            progress.update(progress.task, shown=text, advance=1, total=total)

        def verdict(attempt: StageAttempt, state: State) -> None:
            where = "promoted" if attempt.stage in state.promoted else "stopped" if state.stopped else "repeated"
            progress.print(Text(f"{attempt.student} {where}", style="bold"))
            for check in attempt.checks:
                style = "green" if check.passed else "red"
                progress.print(Text(f"  {'reached' if check.passed else 'missed'}: {check.asks}", style=style))

        yield CurriculumProgress(
            lambda name: progress.reset(progress.task, description=name, total=None, shown=""), tick, verdict
        )
