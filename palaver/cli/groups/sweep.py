"""`palaver results sweep`: settings compared by training with each."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from palaver.cli import folders, options
from palaver.cli.commands.compare import show
from palaver.cli.output import count, errors, note, resumable, say
from palaver.core import ConfigError, need
from palaver.text import one_line
from palaver.utils.progress import Bar
from palaver.utils.provenance import provenance

if TYPE_CHECKING:
    from palaver.benchmarks.experiments.runner import TrainOutcome
    from palaver.benchmarks.experiments.sweep import SweepRun

HELP = """Compare settings: train with each combination, and write the best as a recipe.

[bold]Examples[/bold]

[cyan]palaver results sweep arxiv-magrpo --over "optim.lr=[1e-4,1e-3]" --out runs/sweep[/cyan]

[cyan]palaver results sweep arxiv-magrpo train.steps=60 --over "optim.lr=[1e-4,3e-4,1e-3]"
  --over "algorithm.group_size=[4,8,16]" --halve 3 --seeds 0,1 --out runs/sweep[/cyan]

With --halve 3 all train for a part of the steps, the better third for three times as many, and so on. The same command
resumes. The best candidate's best.yaml names the seeds and tasks that it was chosen on; reports refuse runs on those.
"""


def sweep(
    recipe: Annotated[str, typer.Argument(metavar="RECIPE", help="A recipe's name, or a YAML file.")],
    items: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Settings of all candidates; values are YAML.")
    ] = None,
    over: Annotated[
        list[str] | None, typer.Option(metavar="KEY=[VALUE,VALUE]", help="Values to compare; may be repeated.")
    ] = None,
    seeds: Annotated[str, typer.Option(help="Of every candidate, with commas between.")] = "0",
    halve: Annotated[int, typer.Option(min=0, help="Keep one in so many after each part; 0: train all in full.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Runs that train at the same time.")] = 1,
    out: Annotated[Path, options.out_folder("Of the sweep; the same command resumes it.")] = Path("runs/sweep"),
    dry_run: options.DryRun = False,
    as_json: options.Json = False,
) -> None:
    """Compare settings by training with each."""
    need("a sweep", "train")
    from palaver.benchmarks.experiments import sweep as sweeping

    if not all(seed.strip().isdecimal() for seed in seeds.split(",")):
        raise ConfigError(f"--seeds: whole numbers with commas between, as 0,1,2; got {seeds!r}")
    recipe, overrides = folders.split_recipe(recipe, items, recipe)
    planned = sweeping.plan(recipe, overrides, over or [], [int(seed) for seed in seeds.split(",")], halve)
    parts = [f"{count(part.candidates, 'candidate')} for {count(part.steps, 'step')}" for part in planned.parts]
    note(f"{'; then '.join(parts)}; {count(len(planned.seeds), 'seed')} each")
    if dry_run:
        say(Text("nothing was run", style="dim"))
        return
    total = sum(part.candidates for part in planned.parts) * len(planned.seeds)
    with resumable("the same command"), Bar("sweep", errors, total) as progress:

        def report(run: SweepRun, outcome: TrainOutcome) -> None:
            name = f"{' '.join(planned.candidates[run.candidate])}, seed {run.config.seed}"
            if outcome.error:
                progress.print(Text(f"failed: {name}: {one_line(outcome.error, 300)}", style="red"))
            progress.update(progress.task, shown=name, advance=1)

        result = sweeping.run(planned, out, workers, provenance(), report)
    if as_json:
        typer.echo((out / sweeping.RESULTS).read_text(encoding="utf-8"))
        return
    show(result.comparison, "wall s")
    say(Text("best    ", style="dim"), " ".join(planned.candidates[result.best]))
    for name, file in (("recipe  ", sweeping.BEST), ("figure  ", sweeping.FIGURE), ("numbers ", sweeping.RESULTS)):
        say(Text(name, style="dim"), str(out / file))
