"""`palaver experiment matrix-games`: every algorithm in every matrix game."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from palaver.cli import folders, options
from palaver.cli.output import console, count, errors, print_error, resumable, say
from palaver.core import need
from palaver.text import one_line
from palaver.utils.progress import Bar
from palaver.utils.provenance import provenance

if TYPE_CHECKING:
    from palaver.benchmarks.experiments.matrix_games.results import AlgorithmScore, Lab, MatrixGameResult
    from palaver.benchmarks.experiments.matrix_games.study import PendingRuns

NAME = "lab"  # of the shipped recipe and of its section
HELP = """Train every algorithm in every matrix game, and print the table of returns.

[bold]Examples[/bold]

[cyan]palaver experiment matrix-games[/cyan]  [dim]# ten seeds each, about an hour[/dim]

[cyan]palaver experiment matrix-games lab.games=[xor,climbing] lab.algorithms=[magrpo,qmix] lab.seeds=3[/cyan]

[cyan]palaver experiment matrix-games runs/FOLDER[/cyan]  [dim]# resume an interrupted one[/dim]

docs/lab.md has the measured table.
"""
GOOD, HALF = 0.95, 0.5  # shares of the optimum from which a return is shown in green, in yellow


def matrix_games(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="`lab`, a YAML file, or a folder to resume.")] = NAME,
    items: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Overrides; lab.games=[xor] chooses games.")
    ] = None,
    out: options.Out = None,
    dry_run: options.DryRun = False,
    explain: options.Explain = False,
) -> None:
    """Train every algorithm in every matrix game."""
    need("the laboratory", "train")
    from palaver.benchmarks.experiments.matrix_games.plan import load

    recipe, overrides = folders.split_recipe(recipe, items, NAME)
    plan = load(recipe, overrides)
    if explain:
        options.explain(plan.lab, prefix=f"{NAME}.")
        first = plan.cells[0]
        say(Text(f"\nEvery cell is a run; the first one, {first.algorithm} on {first.game}:\n", style="dim"))
        options.explain(first.config)
        return
    from palaver.benchmarks.experiments.matrix_games import study

    folder = folders.experiment(recipe, out, plan.out)
    work = study.prepare(plan, folder)
    _announce(work)
    if dry_run:
        say(Text("nothing was run", style="dim"))
        return
    errors.print(Text.assemble("laboratory ", (str(work.folder), "bold")), soft_wrap=True)
    with resumable(f"palaver experiment matrix-games {work.folder}"), _bar(work) as report:
        lab = study.run(work, provenance(), report)
    _finish(lab, folder)


def _announce(work: PendingRuns) -> None:
    plan = work.plan
    say(
        Text.assemble(
            (count(len(plan.algorithms), "algorithm"), "bold"),
            " x ",
            (count(len(plan.columns), "game"), "bold"),
            f" x {count(plan.lab.seeds, 'seed')} = {count(len(plan.cells), 'run')}, "
            f"{len(plan.cells) - len(work.todo) - len(work.refused)} of them done already"
            + (f", {work.workers} at a time" if work.todo else ""),
        )
    )
    for name, why in plan.lab.without.items():
        say(Text(f"without {name}: {one_line(why, 300)}", style="dim"))
    for why in dict.fromkeys(work.refused.values()):
        cells = [f"{c.algorithm} on {c.game}" for c in dict.fromkeys(work.refused) if work.refused[c] == why]
        errors.print(Text(f"refused: {', '.join(dict.fromkeys(cells))}: {why}", style="yellow"), soft_wrap=True)


@contextmanager
def _bar(work: PendingRuns) -> Iterator[Any]:
    """Live bar over the runs; yields the callback for each result."""
    with Bar("laboratory", errors, len(work.todo)) as progress:

        def report(result: MatrixGameResult) -> None:
            name = f"{result.algorithm} on {result.game}"
            if result.status == "failed":
                progress.print(Text(f"failed: {name}, seed {result.seed}: {one_line(result.error, 300)}", style="red"))
            return_ = "–" if result.after is None else f"{result.after:.2f}"
            progress.update(progress.task, shown=f"{name} {return_}", advance=1)

        yield report


def _finish(lab: Lab, folder: Path) -> None:
    from palaver.benchmarks.experiments.matrix_games.results import RESULTS
    from palaver.benchmarks.experiments.matrix_games.view import write

    page, picture = write(lab, folder)
    console.print()
    console.print(returns(lab))
    console.print()
    say(Text(f"{lab.minutes:.1f} minutes, {lab.cpu_minutes:.1f} CPU minutes of all runs", style="dim"))
    for name, path in (("page   ", page), ("picture", picture), ("numbers", folder / RESULTS)):
        say(Text(f"{name} ", style="dim"), str(path))
    if lab.failed:
        print_error(f"{count(len(lab.failed), 'run')} failed; their logs are in {folder / 'cells'}")
        raise typer.Exit(1)


def returns(lab: Lab) -> Table:
    """Table of mean returns, shares of the optimum and agreement of seeds.

    The optimum and random play are on top.
    """
    grid = Table(
        title="return after training, share of the optimum, 95 % interval or how seeds agree",
        title_justify="left",
        title_style="dim",
        header_style="bold",
        box=None,
        pad_edge=False,
    )
    grid.add_column("")
    for game in lab.columns:
        grid.add_column(game.replace("-", "-\n"), justify="right", no_wrap=True)
    facts = (("optimum", "optimum"), ("at random", "random"))
    for name, key in facts:
        grid.add_row(name, *(f"{getattr(column, key):.2f}" for column in lab.columns.values()), style="dim")
    for name in lab.algorithms:
        grid.add_row(Text(name, style="bold"), *(_cell(lab.score(name, game)) for game in lab.columns))
    return grid


def _cell(score: AlgorithmScore) -> Text:
    from palaver.benchmarks.experiments.matrix_games.view import seeds

    if score.mean is None:
        return Text("failed" if score.error else "–", style="red" if score.error else "dim")
    style = (
        "" if score.share is None else "green" if score.share >= GOOD else "yellow" if score.share >= HALF else "red"
    )
    text = Text(f"{score.mean:.2f}", style=style)
    share = "" if score.share is None else f"\n{100 * score.share:.0f} %"
    beneath = seeds(score).replace(", ", ",\n").replace(" near", "\nnear")
    return text.append(f"{share}\n{beneath}" if beneath else share, style="dim")
