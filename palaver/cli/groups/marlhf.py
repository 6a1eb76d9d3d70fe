"""`palaver experiment marlhf`: a reward model of preferences, and a team trained on it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from palaver.benchmarks.experiments.marlhf.recipe import MARLHFConfig, load
from palaver.cli import folders, options
from palaver.cli.output import console, errors, facts, note, resumable, say
from palaver.core import ConfigError, need
from palaver.utils.progress import Bar

if TYPE_CHECKING:
    from palaver.trainers.reward_model.fit import Report

HELP = """Train a reward model on preferences, and a team on it. Without a recipe, list them.

[bold]Examples[/bold]

[cyan]palaver experiment marlhf reward-model pairs.file=pairs.jsonl[/cyan]  [dim]# a reward model, named rm:FOLDER[/dim]

[cyan]palaver experiment marlhf arxiv-marlhf --out runs/marlhf[/cyan]  [dim]# and the team trained on it[/dim]

[cyan]palaver experiment marlhf runs/marlhf[/cyan]  [dim]# resume an interrupted one[/dim]
"""


def marlhf(
    recipe: Annotated[
        str | None, typer.Argument(metavar="RECIPE", help="A recipe's name, a YAML file, or a folder to resume.")
    ] = None,
    items: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Overrides, as fit.epochs=2.")] = None,
    out: options.Out = None,
    dry_run: options.DryRun = False,
    explain: options.Explain = False,
) -> None:
    """Train a reward model, and a team on it."""
    if recipe is None:
        options.list_recipes("marlhf")
        return
    config = load(recipe, items or [])
    if explain:
        options.explain(config.model_copy(update={"team": {}}))
        if (team := config.run()) is not None:
            options.explain(team, "team.")
        return
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ConfigError(
            "a reward model is trained in one process: start it without accelerate launch; the team can be trained "
            "by several on env.reward=rm:FOLDER afterwards"
        )
    need("training a reward model", "rm")
    from palaver.benchmarks.experiments.marlhf.run import check

    for line in check(config):
        say(line)
    if dry_run:
        say(Text("nothing was run", style="dim"))
        return
    _run(config, folders.experiment(recipe, out, config.out))


def _run(config: MARLHFConfig, folder: Path) -> None:
    from palaver.benchmarks.experiments.marlhf.run import RESULT, TEAM, MarlhfProgress
    from palaver.benchmarks.experiments.marlhf.run import run as work

    errors.print(Text.assemble("run folder ", (str(folder), "bold")), soft_wrap=True)
    resume = f"palaver experiment marlhf {folder}"
    with resumable(resume), _bar() as report:
        result = work(config, folder, MarlhfProgress(note, report, errors))
    _show(result, folder)
    if (folder / TEAM).is_dir():
        from palaver.benchmarks.reports.run_report.page import write

        say(Text("report ", style="dim"), str(write(folder / TEAM)))
    if not (folder / RESULT).is_file():
        with resumable(resume):  # the team's run stopped gracefully
            raise KeyboardInterrupt


def _show(result: Mapping[str, Any], folder: Path) -> None:
    """Print the results of the finished steps."""
    from palaver.benchmarks.experiments.marlhf.run import MODEL, PICTURE
    from palaver.benchmarks.reports.summary import interval

    held_out = result["reward_model"]["held_out"]
    lines: list[tuple[str, object]] = [
        ("reward model", f"rm:{folder / MODEL}"),
        ("pair accuracy", _share(held_out)),
        ("before training", _share(result["reward_model"]["before"])),
        ("margin, loss", f"{held_out['margin']:.3f}, {held_out['loss']:.3f}"),
        ("longer is better", f"{100 * held_out['longer']:.1f} % of the pairs"),
    ]
    if result["reward_model"]["too_long"]:
        lines.append(("left out", f"{result['reward_model']['too_long']} pairs that are too long"))
    points = result.get("evaluations", [])
    for name, point in {"before": points[0], "after": points[-1]}.items() if points else ():
        ends = interval(point["low"], point["high"])
        lines.append((f"true reward {name}", f"{point['true']:.3f} {ends}, gap {point['gap']:+.3f}"))
    if "gain" in result:
        gain = result["gain"]
        lines.append(("change", f"{gain['mean']:+.3f} {interval(gain['low'], gain['high'])} over {gain['over']}"))
        lines.append(("picture", str(folder / PICTURE)))
    console.print(facts(lines))


def _share(measurement: Mapping[str, Any]) -> str:
    ends = "" if measurement["low"] is None else f" [{100 * measurement['low']:.1f}, {100 * measurement['high']:.1f}]"
    held_out = f"{measurement['pairs']} held-out pairs of {measurement['tasks']} tasks"
    return f"{100 * measurement['accuracy']:.1f} %{ends} of {held_out}"


@contextmanager
def _bar() -> Iterator[Report]:
    """Live bar of the reward model training, from its first step to its last."""
    progress = Bar("reward model", errors, transient=True)

    def report(step: int, steps: int, metrics: dict[str, float]) -> None:
        if not progress.live.is_started:
            progress.start()
        text = f"loss {metrics['loss']:.3f}, pairs {100 * metrics['accuracy']:.0f} %"
        progress.update(progress.task, shown=text, completed=step, total=steps)
        if step == steps:
            progress.stop()

    try:
        yield report
    finally:
        progress.stop()
