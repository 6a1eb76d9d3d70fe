"""`palaver train`: run a recipe and show the result."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from palaver.benchmarks.reports.run_folder import read
from palaver.cli import folders, options
from palaver.cli.output import console, errors, facts, say
from palaver.core import ConfigError, need
from palaver.trainers.config.loading import origins
from palaver.trainers.config.run import RunConfig
from palaver.trainers.config.team import SHARING
from palaver.trainers.run.files import CONFIG
from palaver.utils.provenance import provenance
from palaver.utils.run_folder import refuse_in_use

HELP = """Train a team by a recipe. Without a recipe, list them.

[bold]Examples[/bold]

[cyan]palaver train[/cyan]  [dim]# the recipes[/dim]

[cyan]palaver train arxiv-magrpo[/cyan]

[cyan]palaver train arxiv-magrpo train.steps=300 seed=1 --out runs/longer[/cyan]

[cyan]palaver train arxiv-magrpo --explain[/cyan]  [dim]# every key; where values came from[/dim]

[cyan]palaver train arxiv-magrpo --resume[/cyan]  [dim]# resume this recipe's newest run[/dim]

[cyan]palaver train --resume runs/longer[/cyan]  [dim]# resume that run[/dim]

[cyan]palaver train runs/longer/config.yaml seed=2[/cyan]  [dim]# a run's config is itself a recipe[/dim]

Ctrl-C saves a checkpoint and ends the run cleanly.
"""


def train(
    recipe: Annotated[
        str | None,
        typer.Argument(metavar="RECIPE", help="A recipe's name, a YAML file, or with --resume a run folder."),
    ] = None,
    items: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Overrides, as train.steps=300.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Resume a run: the one named, or else the newest of this recipe.")
    ] = False,
    out: Annotated[Path | None, options.out_folder("Of the run.", "runs/RECIPE-TIME")] = None,
    explain: Annotated[
        bool,
        typer.Option("--explain", help="Print where each changed setting came from, then all other keys, and stop."),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Check all but the model, print the plan, and stop.")
    ] = False,
) -> None:
    """Train a team by a recipe."""
    if recipe is None:
        if resume:
            raise ConfigError("--resume needs a run folder, or a recipe whose newest run is meant")
        options.list_recipes()
        return
    job = folders.plan(recipe, items or [], resume, out)
    if explain:
        source = str(job.folder / CONFIG) if job.resume else job.recipe
        options.explain_run(job.config, origins(source, job.overrides, job.config))
        return
    need("training", "train")
    if dry_run:
        from palaver.trainers.rollout.tasks import with_epochs

        job = replace(job, config=with_epochs(job.config))
        summary, memory = check(job)
        announce(job)
        for line in memory:
            say(line)
        say(Text(f"{summary}; nothing was run", style="dim"))
        return
    exit_if_interrupted(run(job, finish), job)


def exit_if_interrupted(status: str, job: folders.TrainJob) -> None:
    """Exit with code 130 if a run was interrupted, with the command that resumes it."""
    if status == "interrupted":
        errors.print(Text(f"interrupted; resume with: palaver train --resume {job.folder}"), soft_wrap=True)
        raise typer.Exit(130)


def run(job: folders.TrainJob, report: Callable[[Path], object]) -> str:
    """Train, then write the report on the main process.

    Returns the trainer's status, as `done` or `interrupted`.
    """
    from palaver.trainers import train as trainer
    from palaver.trainers.run.errors import NumericalError

    main = folders.is_main_process()
    if main:
        refuse_in_use(job.folder)
        errors.print(Text.assemble("run folder ", (str(job.folder), "bold")), soft_wrap=True)
    try:
        if job.resume:
            trainer.resume(job.folder)
        else:
            started = time.strftime("%Y-%m-%d %H:%M:%S")  # the report shows how to reproduce the run
            command = {"recipe": job.recipe, "overrides": list(job.overrides), "started": started}
            trainer.train(job.config, job.folder, launch=command | provenance())
    except NumericalError:
        if main:
            report(job.folder)
        raise
    if not main:
        return ""
    report(job.folder)
    return str(read(job.folder).state.get("status", ""))


def announce(job: folders.TrainJob) -> None:
    """Print the run that is about to start."""
    config = job.config
    algorithm = config.algorithm
    console.print(
        facts(
            {
                "environment": f"{config.env.id}, tasks {config.env.tasks}",
                "algorithm": f"{algorithm.name}, groups of {algorithm.group_size}, {algorithm.joint}",
                "team": _team(config),
                "steps": f"{config.train.steps} of {config.train.prompts_per_step} tasks",
                "run folder": Text(str(job.folder), style="bold"),
            }
        )
    )


def _team(config: RunConfig) -> str:
    """Describe the policies: models, or action values, which have none."""
    from palaver.trainers.algorithms.base import chosen
    from palaver.trainers.train import values_legal

    kind = config.team.kind
    if values_legal(config, chosen(config.algorithm)):
        return (
            f"values of legal actions, no model, {'one for all agents' if kind == 'shared' else 'one for each agent'}"
        )
    return f"{config.policy.model}, {kind}: {SHARING[kind]}"


def check(job: folders.TrainJob) -> tuple[str, list[str]]:
    """Check a run before it loads a model.

    Returns a description of its work, and of the memory that it takes on a GPU.

    Raises:
        PalaverError: the first mistake found.
    """
    from palaver.trainers.train import prepare, turns, values_legal

    config = job.config
    algorithm, env, eval_env = prepare(config)
    summary = f"{len(env.tasks)} training tasks, {len(eval_env.tasks)} evaluation tasks"
    if values_legal(config, algorithm) or config.policy.model == "tiny" or config.team.kind == "heterogeneous":
        return summary, []
    from palaver.trainers.placement.checks import may_shard
    from palaver.trainers.run import memory_plan

    agents = len(config.team.trained(env.possible_agents))
    work = memory_plan.team_work(config, algorithm, agents, turns(config, env), may_shard(config, algorithm))
    return summary, memory_plan.lines(config, config.policy.model, work)


def finish(folder: Path) -> None:
    """Write the report and print the result of the run."""
    from palaver.benchmarks.reports.run_report.page import CURVE, write
    from palaver.cli import outcome

    run = read(folder)
    page = write(run)
    outcome.show(run)
    console.print()
    say(Text("report ", style="dim"), str(page))
    say(Text("curve  ", style="dim"), str(page.with_name(CURVE)))
