"""`palaver evaluate`: how well a team does, with its interval."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from palaver.cli import options
from palaver.cli.output import console, count, facts, note, say, table
from palaver.cli.values import keywords, merged
from palaver.core import ConfigError, Episode
from palaver.trainers.config import EVAL_SEED

if TYPE_CHECKING:
    from palaver.benchmarks.evaluate import Result

HELP = """Evaluate a team: mean reward, 95 % bootstrap interval over tasks, n, components.

[bold]Examples[/bold]

[cyan]palaver evaluate arxiv-v0 --team scripted:reference[/cyan]

[cyan]palaver evaluate arxiv-v0 --team background=tiny,method=random --n 16 --samples 4[/cyan]

[cyan]palaver evaluate arxiv-v0 --team run:runs/FOLDER --greedy --json[/cyan]

[cyan]palaver evaluate tldr-v0 --team hf:Qwen/Qwen3-0.6B --tasks "hf:trl-lib/tldr:validation[:100]"[/cyan]

The team of a run plays with that run's keywords, held-out tasks and sampling, unless others are given.
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("evaluate", help=HELP)(evaluate)


def evaluate(
    env: Annotated[str, typer.Argument(metavar="ENV", help="An environment, as arxiv-v0.")],
    pairs: options.Pairs = None,
    team: options.Team = "tiny",
    n: Annotated[int, typer.Option("--n", "-n", min=0, help="The first n tasks; 0 takes all.")] = 32,
    samples: Annotated[int, typer.Option(min=1, help="Episodes per task.")] = 1,
    seed: options.Seed = EVAL_SEED,
    tasks: Annotated[str | None, typer.Option(help="sample, a file, or hf:NAME:SPLIT; a slice may follow.")] = None,
    greedy: options.Greedy = False,
    temperature: options.Temperature = None,
    max_tokens: options.MaxTokens = None,
    device: options.Device = "auto",
    dtype: options.DType = "fp32",
    force: options.Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the episodes to this file, one JSON object a line.")] = None,
) -> None:
    """Evaluate a team."""
    from palaver.benchmarks.evaluate import Setting, as_trained, measure
    from palaver.registry import spec

    given = keywords(pairs or [])
    if tasks is not None:
        source = spec(env).teamsets
        if source in given:
            raise ConfigError(f"the tasks are named twice: give either --tasks or {source}=, not both")
        given[source] = tasks
    if out is not None and not out.parent.is_dir():
        raise ConfigError(f"--out: there is no folder {str(out.parent)!r}")
    known, sampling, own = as_trained(team, env)
    setting = Setting(
        env=env,
        keywords=merged(known, given),
        team=team,
        n=n,
        samples=samples,
        seed=seed,
        sampling=options.sampling(sampling, temperature, max_tokens, greedy),
        own={seat: options.sampling(each, temperature, max_tokens, greedy) for seat, each in own.items()},
        options=options.model_options(device, dtype),
        force=force,
    )
    if known and not as_json:
        note(f"keywords of the run: {json.dumps(setting.keywords)}")
    result, episodes = measure(setting, note)
    if out is not None:
        save(episodes, out)
    typer.echo(json.dumps(result.to_dict(), indent=2)) if as_json else show(result)


def save(episodes: Sequence[Episode], path: Path) -> None:
    """Write episodes as JSON lines.

    Raises:
        ConfigError: the file cannot be written.
    """
    try:
        with path.open("w", encoding="utf-8") as file:
            file.writelines(json.dumps(episode.to_dict()) + "\n" for episode in episodes)
    except OSError as error:
        raise ConfigError(f"cannot write {str(path)!r}: {error.strerror}") from error


def show(result: Result) -> None:
    """Print a result as tables."""
    from palaver.benchmarks.summary import interval

    say(Text(result.env, style="bold"), Text(f"team {result.team}", style="dim"))
    most = "" if math.isinf(result.max_reward) else f" of {result.max_reward:g}"  # a reward model's has no end
    mean = Text.assemble((f"{result.mean:.3f}", "bold"), f" {interval(result.low, result.high)}", (most, "dim"))
    tokens = ", ".join(f"{agent} {count:.1f}" for agent, count in result.tokens.items() if count)
    console.print(
        facts(
            [
                ("mean reward", mean),
                ("episodes", f"{result.n} ({count(result.tasks, 'task')} x {result.samples})"),
                *([("not scored", f"{result.unscored}, left out")] if result.unscored else []),
                *([("tokens per answer", tokens)] if tokens else []),
                ("seconds", f"{result.seconds:.2f}"),
                ("seed", result.seed),
            ]
        )
    )
    parts = (("component", result.components), ("measurement", result.metrics), ("tasks solved", result.passes))
    for title, values in parts:
        if values:
            made = table(title, "mean", right=("mean",))
            for name, value in values.items():
                made.add_row(Text(name), f"{value:.3f}")
            console.print()
            console.print(made)
