"""`palaver results analyse`: how well a run's advantages predict the effect of single messages."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palaver.cli.output import console, count, facts

if TYPE_CHECKING:
    from palaver.benchmarks.evaluation.credit import Credit

HELP = """Measure credit fidelity and inter-agent influence of a run.

[bold]Examples[/bold]

[cyan]palaver results analyse runs/FOLDER[/cyan]

[cyan]palaver results analyse runs/FOLDER --contexts 64 --replays 16 --json[/cyan]

Single messages of the run's own rollouts are replayed with fresh texts of the other agents and fresh continuations.
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("analyse", help=HELP)(analyse)


def analyse(
    run: Annotated[Path, typer.Argument(help="The folder of a run, with a checkpoint.")],
    tasks: Annotated[int, typer.Option(min=1, help="Tasks rolled out as in a training step.")] = 4,
    contexts: Annotated[int, typer.Option(min=1, help="Contexts whose messages are replayed.")] = 16,
    alternatives: Annotated[int, typer.Option(min=2, help="Fresh messages in each context.")] = 8,
    replays: Annotated[int, typer.Option(min=1, help="Replays of each message.")] = 4,
    seed: Annotated[int, typer.Option(help="Of every draw.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Threads that step environments.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Measure how well a run's advantages predict the effect of single messages."""
    from palaver.benchmarks.evaluation.credit import Effort, of_run

    result = of_run(run, Effort(tasks, contexts, alternatives, replays, seed, workers))
    typer.echo(json.dumps(asdict(result), indent=2)) if as_json else show(result)


def show(result: Credit) -> None:
    """Print the diagnostics."""
    fidelity = "not defined: all equal" if result.fidelity is None else f"{result.fidelity:+.2f}"
    console.print(
        facts(
            [
                ("credit fidelity", f"{fidelity} (rank correlation of advantage and effect)"),
                ("within-group variance", f"{result.variance:.4g}"),
                ("inter-agent influence", f"{result.influence:.3f} nats, {result.chance:.3f} by chance"),
                ("measured on", f"{count(result.rows, 'message')} in {count(result.contexts, 'context')}"),
                ("replays", str(result.replays)),
            ]
        )
    )
