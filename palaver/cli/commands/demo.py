"""`palaver demo`: two acts, from nothing to trained teams, on a laptop in minutes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.columns import Columns
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from palaver.benchmarks.experiments.demo_seeds import ACTS, greedy_solved
from palaver.cli import folders
from palaver.cli.background import BackgroundRun, in_background
from palaver.cli.commands import train
from palaver.cli.commands.report import need_plots
from palaver.cli.folders import TrainJob
from palaver.cli.output import console, errors, say, table
from palaver.core import usable_cores
from palaver.text import clean

if TYPE_CHECKING:  # imports numpy and matplotlib, which the command line must start without
    from palaver.benchmarks.reports.coding_conventions import ProgramPair
    from palaver.benchmarks.reports.run_folder import RunFolder

HELP = """Train small teams and show what they learned, in two acts.

[bold]First act[/bold]: two authors learn to write an introduction together (the recipe arxiv-magrpo).

[bold]Second act[/bold]: two strangers, who write one small program without seeing each other, come to agree on what the
helper is for (coding-mini-magrpo), and with another seed on something else.

[cyan]palaver demo[/cyan]  [dim]# both, about five minutes[/dim]

[cyan]palaver demo --act 2 seed=3[/cyan]
"""
WRITING, CODE = ACTS["writing"], ACTS["coding"]
PAIRS, ROWS, BAR = 2, 6, 10
OTHERS = (3, 4)  # added to the seed for further runs of the second act; the last only if the others end equally


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo", help=HELP)(demo)


def demo(
    items: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Overrides for every run.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder of the runs.", show_default="runs/demo-TIME")] = None,
    act: Annotated[int, typer.Option(min=0, max=2, help="1 or 2 plays that act alone; 0 both.")] = 0,
    from_scratch: Annotated[
        bool, typer.Option("--from-scratch", help="Teach the tiny models here, in place of the shipped ones.")
    ] = False,
) -> None:
    """Train small teams and show what they learned."""
    need_plots()
    folder = out or folders.RUNS / f"demo-{time.strftime('%Y%m%d-%H%M%S')}"
    given = [*(items or []), *(["policy.from_scratch=true"] if from_scratch else [])]
    code = [*CODE.overrides, *given]
    seed = folders.plan(CODE.recipe, code, False, folder / "code").config.seed
    jobs = [
        folders.plan(CODE.recipe, [*code, f"seed={seed + k}"], False, folder / f"code-seed-{seed + k}")
        for k in (0, *OTHERS)
    ]
    first = folders.plan(WRITING.recipe, [*WRITING.overrides, *given], False, folder / "writing")
    for job in ([first] if act != 2 else []) + (jobs if act != 1 else []):  # a mistake shows before anything runs
        train.check(job)
    background_job = jobs[1] if act != 1 and usable_cores() > 1 else None  # trains on another core meanwhile
    with in_background(background_job, folder / "beside.log") as meanwhile:
        if act != 2:
            _head("First act: two authors write one introduction")
            _stop_unless_done(train.run(first, train.finish), first)
        if act != 1:
            _second(jobs, meanwhile, folder)


def _second(jobs: Sequence[TrainJob], meanwhile: BackgroundRun | None, folder: Path) -> None:
    """Run the second act, with further seeds until one differs from the first."""
    _head("Second act: two strangers agree on one helper")
    for index, job in enumerate(jobs):
        status = (
            meanwhile.finish() if index == 1 and meanwhile else train.run(job, _written if index else _write_and_show)
        )
        _stop_unless_done(status, job)
        if index and _agreement(job) != _agreement(jobs[0]):
            break
    _compare(jobs[: index + 1], folder)


def _head(title: str) -> None:
    console.print()
    console.rule(Text(title, style="bold"), align="left")


def _stop_unless_done(status: str, job: TrainJob) -> None:
    if status == "interrupted":
        errors.print(Text(f"interrupted; go on with: palaver train --resume {job.folder}"), soft_wrap=True)
        raise typer.Exit(130)


def _written(folder: Path) -> None:
    from palaver.benchmarks.reports.run_report import write

    write(folder)


def _write_and_show(folder: Path) -> None:
    """Print failing pairs, the curve with its conventions, and the same problems after training."""
    from palaver.benchmarks.reports import coding_conventions as conventions
    from palaver.benchmarks.reports.run_folder import read
    from palaver.benchmarks.reports.run_report import CURVE, write

    run = read(folder)
    page = write(run)
    pairs = conventions.failing_pairs(run, PAIRS)
    _head_line(f"Before training: {len(pairs)} pairs that fail, the first ones, not chosen")
    console.print(_side_by_side(pairs))
    _head_line("Training: reward, problems solved, and what each takes the helper for")
    console.print(_curve(run))
    _head_line("The same problems after training")
    console.print(_side_by_side(conventions.pairs_after_training(run, pairs)))
    say(Text("report ", style="dim"), str(page))
    say(Text("curve  ", style="dim"), str(page.with_name(CURVE)))


def _agreement(job: TrainJob) -> list[str]:
    """Return the conventions that the agents converged to."""
    from palaver.benchmarks.reports import coding_conventions as conventions
    from palaver.benchmarks.reports.run_folder import read
    from palaver.benchmarks.reports.summary import score

    return [use.split()[0] for use in conventions.conventions_of(score(read(job.folder)).after).values()]


def _head_line(text: str) -> None:
    console.print()
    say(Text(text, style="bold"))


def _side_by_side(pairs: Sequence[ProgramPair]) -> Columns:
    return Columns([_panel(pair) for pair in pairs], equal=True, expand=True)


def _panel(pair: ProgramPair) -> Panel:
    body = Text(f"{clean(pair.description)}\n\n", style="italic")
    for agent, code in pair.completions.items():
        body.append(f"{agent}\n", style="bold not italic").append(f"{clean(code, 600)}\n\n", style="not italic")
    mark = ("✓ ", "bold green not italic") if pair.solved else ("✗ ", "bold red not italic")
    body.append_text(Text.assemble(mark, (clean(pair.reason), "not italic")))
    return Panel(body, title=Text(pair.task), title_align="left", border_style="green" if pair.solved else "red")


def _curve(run: RunFolder) -> Table:
    """Table of six moments of training; a bar for each convention of each agent."""
    from palaver.benchmarks.reports import coding_conventions as conventions

    names = [f"{agent}: {name}" for agent in conventions.AGENTS for name in conventions.CONVENTIONS]
    grid = table("step", "reward", "solved", *names, right=("step", "reward", "solved"))
    for moment in conventions.training_moments(run, ROWS):
        bars = [moment.shares[agent][name] for agent in conventions.AGENTS for name in conventions.CONVENTIONS]
        grid.add_row(str(moment.step), f"{moment.reward:.2f}", f"{moment.solved:.0%}", *map(bar, bars))
    return grid


def bar(share: float) -> Text:
    """A share as a bar of at most ten blocks.

    >>> bar(0.3).plain
    '███······· '
    """
    full = round(max(0.0, min(1.0, share)) * BAR)
    return Text("█" * full + "·" * (BAR - full) + " ", style="cyan" if full else "dim")


def _compare(jobs: Sequence[TrainJob], folder: Path) -> None:
    """Print the conventions of each seed, and write a page that compares them.

    Sampled and greedy.
    """
    from palaver.benchmarks.reports import coding_conventions as conventions
    from palaver.benchmarks.reports.run_folder import read
    from palaver.benchmarks.reports.run_report import compare
    from palaver.benchmarks.reports.summary import score

    runs = [read(job.folder) for job in jobs]
    _head_line("Seeds and their agreements: held-out problems solved, and what the helper is taken for")
    grid = table("seed", "before", "after", "after, greedy", "before: aux, main", "after: aux, main")
    for job, run in zip(jobs, runs, strict=True):
        result = score(run)
        uses = [", ".join(conventions.conventions_of(point).values()) or "–" for point in (result.before, result.after)]
        solved = [conventions.solved_of(point) for point in (result.before, result.after)]
        grid.add_row(str(job.config.seed), *solved, greedy_solved(job.folder, job.config), *uses)
    console.print(grid)
    console.print()
    say(Text("comparison ", style="dim"), str(compare(runs, folder)))
