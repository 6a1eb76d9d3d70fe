"""`palaver results rescore`: stored episodes with the rewards of the current environment."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.text import Text

from palaver.cli.commands.evaluate import save
from palaver.cli.output import console, count, facts, note, say
from palaver.core import ConfigError
from palaver.utils.config import merged, parse_overrides

if TYPE_CHECKING:
    from palaver.benchmarks.evaluation.rescore import RescoreResult

HELP = """Score stored episodes again, with other rewards.

[bold]Examples[/bold]

[cyan]palaver results rescore rows/arxiv-v0--reference.json "length=[32,64]"[/cyan]

[cyan]palaver results rescore runs/FOLDER/episodes/eval-000130.jsonl gated=false[/cyan]

[cyan]palaver results rescore rows/echo-v0--random.jsonl.gz --row again[/cyan]  [dim]# a new row, naming the old[/dim]

The keywords are those of the row next to the episodes, or of their run, overridden by KEY=VALUE.
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("rescore", help=HELP)(rescore)


def rescore(
    episodes: Annotated[Path, typer.Argument(help="A row, or a JSON-lines file of episodes, packed or not.")],
    changes: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Keywords of the environment; values are YAML.")
    ] = None,
    env: Annotated[str, typer.Option(help="The environment.", show_default="the one that the episodes name")] = "",
    workers: Annotated[int, typer.Option(min=1, help="Threads that step environments.")] = 1,
    out: Annotated[Path | None, typer.Option(help="Write the new episodes to this file.")] = None,
    row: Annotated[Path | None, typer.Option(help="Keep a new row, with its episodes, in this folder.")] = None,
    label: Annotated[str, typer.Option(help="Name of the new row in tables.", show_default="LABEL-rescored")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Rescore stored episodes."""
    from palaver.benchmarks.evaluation import rescore as scoring

    if out is not None and not out.parent.is_dir():
        raise ConfigError(f"--out: there is no folder {str(out.parent)!r}")
    source = scoring.source(episodes, env)
    if row is not None and source.row is None:
        raise ConfigError("--row needs episodes with a row in the same folder; for others use --out")
    if source.keywords is None:
        note("there is neither a row nor a run with the keywords of these episodes: defaults and KEY=VALUE are used")
    wanted = merged(source.keywords or {}, parse_overrides(changes or []))
    result, played = scoring.rescore(source, wanted, workers)
    if out is not None:
        save(played, out)
    if row is not None and source.row is not None:
        entry = scoring.new_row(source, wanted, played, label or f"{source.row.label}-rescored", row, result.scoring)
        note(f"row {row / entry.name}.json")
    typer.echo(json.dumps(asdict(result), indent=2)) if as_json else show(result)


def show(result: RescoreResult) -> None:
    """Print the changes."""
    from palaver.benchmarks.reports.summary import interval

    def episodes(n: int) -> str:
        return count(n, "episode")

    say(Text(f"{result.before:.3f} → {result.after:.3f}", style="bold"), Text(f"mean of {episodes(result.n)}"))
    console.print(
        facts(
            [
                ("difference", f"{result.difference:+.3f} {interval(result.low, result.high)}"),
                ("other reward", episodes(result.changed)),
                ("other observations", f"{episodes(result.reobserved)}, with answers to the recorded observations"),
                ("other end", episodes(result.ended)),
                *([("not scored", f"{episodes(result.unscored)}, left out")] if result.unscored else []),
            ]
        )
    )
