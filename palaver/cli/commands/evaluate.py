"""`palaver evaluate`: mean return of a team, with its interval."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from palaver.benchmarks.reports.summary import interval
from palaver.cli import options
from palaver.cli.output import console, count, facts, note, say, table
from palaver.core import ConfigError
from palaver.episodes import Episode
from palaver.trainers.config.run import EVAL_SEED
from palaver.utils.config import merged
from palaver.utils.run_folder import replace_text, writing

if TYPE_CHECKING:
    from palaver.benchmarks.evaluation.evaluate import EvaluationConfig
    from palaver.benchmarks.evaluation.results import EvaluationOutcome

FIXED = ("n", "samples", "seed", "tasks", "focal", "greedy")  # by a scenario
HELP = """Evaluate a team: mean reward, interval, components.

A scenario may stand in place of an environment: the team's members play with frozen partners.

[bold]Examples[/bold]

[cyan]palaver evaluate arxiv-v0 --team scripted:reference[/cyan]

[cyan]palaver evaluate arxiv-v0 --team background=tiny,method=random --n 16 --samples 4[/cyan]

[cyan]palaver evaluate arxiv-v0 --team run:runs/FOLDER --greedy --json[/cyan]

[cyan]palaver evaluate tldr-v0 --team hf:Qwen/Qwen3-0.6B --tasks "hf:trl-lib/tldr:validation[:100]"[/cyan]

[cyan]palaver evaluate arxiv-reference-v2 --team random --row rows[/cyan]  [dim]# a scenario, kept as a result row[/dim]

[cyan]palaver evaluate arxiv-v0 --team recipe:arxiv-magrpo[/cyan]  [dim]# a recipe's team, trained once and kept[/dim]

[cyan]palaver evaluate pokemon-v1 --focal p1 --team p1=scripted:reference,p2=scripted:uniform[/cyan]

The team of a run plays with that run's keywords, held-out tasks and sampling, unless others are given.
"""


def evaluate(
    ctx: typer.Context,
    env: Annotated[str, typer.Argument(metavar="ENV", help="An environment, as arxiv-v0, or a scenario.")],
    pairs: options.Pairs = None,
    team: options.Team = "tiny",
    n: Annotated[int, typer.Option("--n", "-n", min=0, help="The first n tasks; 0 takes all.")] = 32,
    samples: Annotated[int, typer.Option(min=1, help="Episodes per task.")] = 1,
    seed: options.Seed = EVAL_SEED,
    tasks: Annotated[str | None, typer.Option(help="sample, a file, or hf:NAME:SPLIT; a slice may follow.")] = None,
    focal: Annotated[str, typer.Option(help="Agents whose own return is measured, separated by commas.")] = "",
    greedy: options.Greedy = False,
    as_json: options.Json = False,
    out: Annotated[Path | None, options.out_file("Of the episodes, one JSON object a line.")] = None,
    row: Annotated[
        Path | None, typer.Option(help="Keep the result as a row, with its episodes, in this folder.")
    ] = None,
    label: Annotated[str, typer.Option(help="Name of the row in tables.", show_default="the team")] = "",
    explain: options.Explain = False,
) -> None:
    """Evaluate a team."""
    from palaver.benchmarks.evaluation.evaluate import EvaluationConfig, as_trained, measure, to_row
    from palaver.benchmarks.evaluation.focal import FocalRound
    from palaver.benchmarks.scenarios import spec as scenarios

    settings, given = options.split(options.PlayerSettings, pairs)
    if explain:
        options.explain(settings)
        note(f"keywords of the environment: palaver envs {env}")
        return
    options.make_parent(out)
    if scenarios.is_scenario(env):
        setting = scenario(ctx, env, team, settings, given)
    else:
        given = named_once(env, given, tasks)
        known, sampling, agent_sampling = as_trained(team, env, note)
        focal_agents = tuple(agent.strip() for agent in focal.split(",") if agent.strip())
        setting = EvaluationConfig(
            env=env,
            keywords=merged(known, given),
            team=team,
            n=n,
            samples=samples,
            seed=seed,
            sampling=settings.draws(sampling, greedy),
            agent_sampling={agent: settings.draws(trained, greedy) for agent, trained in agent_sampling.items()},
            options=settings.model.options(),
            force=settings.model.force,
            seatings=(FocalRound(focal_agents),) if focal_agents else (),
        )
        if known and not as_json:
            note(f"keywords of the run: {json.dumps(setting.keywords)}")
    result, episodes = measure(setting, note)
    if out is not None:
        save(episodes, out)
    if row is not None:
        entry = to_row(result, episodes, label or team, row)
        note(f"row {row / entry.name}.json")
    typer.echo(json.dumps(result.model_dump(), indent=2)) if as_json else show(result)


def scenario(
    ctx: typer.Context, name: str, team: str, settings: options.PlayerSettings, keywords: Mapping[str, Any]
) -> EvaluationConfig:
    """Return the evaluation settings of a scenario.

    Raises:
        ConfigError: it does not exist, or an option was given that it fixes.
    """
    from palaver.benchmarks.scenarios import spec

    sources = {f"--{option}": ctx.get_parameter_source(option) for option in FIXED}
    fixed = [option for option, source in sources.items() if source is not None and source.name == "COMMANDLINE"]
    fixed += [*keywords, *(f"sampling.{key}" for key in settings.sampling.model_fields_set)]
    fixed += ["model.force"] if settings.model.force else []
    if fixed:
        raise ConfigError(f"the scenario {name!r} fixes the players, keywords and sampling: leave {fixed[0]} out")
    return spec.setting(spec.load(name), team, settings.model.options())


def named_once(env: str, keywords: Mapping[str, Any], tasks: str | None) -> dict[str, Any]:
    """Return the keywords, with the tasks if given by an option.

    Raises:
        ConfigError: the tasks are given twice.
    """
    from palaver.registry import spec

    source = spec(env).teamsets
    if tasks is not None and source in keywords:
        raise ConfigError(f"the tasks are named twice: give either --tasks or {source}=, not both")
    return {**keywords, **({} if tasks is None else {source: tasks})}


def save(episodes: Sequence[Episode], path: Path) -> None:
    """Write episodes as JSON lines.

    Raises:
        ConfigError: the file cannot be written.
    """
    with writing(path.parent):
        replace_text(path, "".join(json.dumps(episode.to_dict()) + "\n" for episode in episodes))


def show(result: EvaluationOutcome) -> None:
    """Print a result as tables."""
    say(Text(result.scenario or result.env, style="bold"), Text(f"team {result.team}", style="dim"))
    maximum = "" if math.isinf(result.max_reward) else f" of {result.max_reward:g}"  # a reward model's is unbounded
    among = f" {interval(result.low, result.high)}"
    if result.focal is not None and result.focal.silent is None:  # opponents, whose rewards have no common maximum
        mean = [*_focal(result), ("mean of all agents", f"{result.mean:.3f}{among}")]
    else:
        whole = Text.assemble((f"{result.mean:.3f}", "bold"), among, (maximum, "dim"))
        mean = [("mean reward", whole), *_focal(result)]
    answers = result.answers
    illegal = f"{answers.illegal} of {answers.due} ({100 * answers.share:.1f} %)" if answers else ""
    tokens = ", ".join(f"{agent} {count:.1f}" for agent, count in result.tokens.items() if count)
    console.print(
        facts(
            [
                *mean,
                *([("illegal answers", illegal)] if answers else []),
                ("episodes", f"{result.n} ({count(result.tasks, 'task')} x {result.samples})"),
                *([("not scored", f"{result.unscored}, left out")] if result.unscored else []),
                *([("tokens per answer", tokens)] if tokens else []),
                ("seconds", f"{result.seconds:.2f}"),
                *(
                    [("cost", f"{result.cost.dollars:.4f} dollars, {count(result.cost.calls, 'call')}")]
                    if result.cost
                    else []
                ),
                ("seed", result.seed),
            ]
        )
    )
    parts = (
        ("component", result.components),
        ("measurement", result.metrics),
        ("tasks solved", result.passes),
        ("scoring", result.scoring),
    )
    for title, values in parts:
        if values:
            grid = table(title, "mean", right=("mean",))
            for name, value in values.items():
                grid.add_row(Text(name), f"{value:.3f}")
            console.print()
            console.print(grid)


def _focal(result: EvaluationOutcome) -> list[tuple[str, object]]:
    focal = result.focal
    if focal is None:
        return []
    overall = Text.assemble((f"{focal.mean:.3f}", "bold"), f" {interval(focal.low, focal.high)}")
    by_seating = [(f"  {name}", f"{value:.3f}") for name, value in focal.by_seating.items()]
    if focal.silent is None:
        return [("agents in focus", overall), *by_seating]
    return [("added in focus", overall), *by_seating, ("silence earns", f"{focal.silent:.3f}")]
