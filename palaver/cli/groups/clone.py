"""`palaver clone`: behaviour cloning from recorded battles."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from palaver.cli.output import errors, say
from palaver.cli.values import keywords
from palaver.core import ConfigError

if TYPE_CHECKING:
    from palaver.trainers.behaviour_cloning.mixture import Source

HELP = """Clone players from recorded battles, as net:FOLDER.

[bold]Examples[/bold]

[cyan]palaver arena pokemon-v1 --players simple@1,typed@1 --battles 400 --record runs/battles[/cyan]

[cyan]palaver clone runs/battles --out runs/student[/cyan]

[cyan]palaver clone runs/new=3 runs/old=1 --out runs/student2 --start runs/student --set lr=3e-4[/cyan]

[cyan]palaver clone runs/battles --out runs/reader --set model=hf:NAME decisions=64 lr=1e-5[/cyan]

The same command resumes an interrupted one. Settings are listed in docs/battle-net.md.
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("clone", help=HELP)(clone)


def clone(
    battles: Annotated[list[str], typer.Argument(metavar="FOLDER[=WEIGHT]...", help="Recorded battles.")],
    out: Annotated[Path, typer.Option(help="Folder of the run.")],
    size: Annotated[str, typer.Option(help="nano, small or medium.")] = "nano",
    loss: Annotated[str, typer.Option(help="clone, filter or weigh.")] = "clone",
    epochs: Annotated[int, typer.Option(help="As many trajectories as there are, each time.")] = 3,
    seed: Annotated[int, typer.Option(help="Seed of weights, order and feature dropout.")] = 0,
    start: Annotated[Path | None, typer.Option(help="A net or a run to begin with.")] = None,
    player: Annotated[str, typer.Option(help="Learn from these players only, separated by commas.")] = "",
    settings: Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any other setting.")] = None,
) -> None:
    """Train by behaviour cloning on battles."""
    values: dict[str, Any] = {"size": size, "loss": loss, "epochs": epochs, "seed": seed}
    given = keywords([piece for item in settings or [] for piece in item.split()])
    if twice := sorted(given.keys() & values.keys()):
        raise ConfigError(f"{twice[0]} has an option of its own: write --{twice[0]}")
    from palaver.trainers.behaviour_cloning.config import parse
    from palaver.trainers.behaviour_cloning.train import clone as learn

    config = parse(values | given)
    sources = [_source(item, [piece.strip() for piece in player.split(",") if piece.strip()]) for item in battles]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=errors, transient=True) as bar:
        task = bar.add_task("cloning", total=None)

        def show(step: int, steps: int, metrics: dict[str, float]) -> None:
            bar.update(task, completed=step, total=steps, description=f"nll {metrics['nll']:.3f}")

        result = learn(config, out, sources, start, show)
    _report(out)
    say(str(result))


def _source(text: str, players: list[str]) -> Source:
    from palaver.trainers.trajectories.reader import Reader

    match = re.fullmatch(r"(.+)=([0-9.]+(?:e-?\d+)?)", text)
    folder, weight = (match.group(1), match.group(2)) if match else (text, "1")
    try:
        share = float(weight)
    except ValueError as error:
        raise ConfigError(f"the weight of {folder!r} is no number: {weight}") from error
    reader = Reader(Path(folder))
    if not players:
        return reader, share
    chosen = reader.select(player=players)
    if not len(chosen):
        known = sorted({entry.player for entry in reader.entries})
        raise ConfigError(f"no player named {', '.join(players)} is in {folder!r}; there are: {', '.join(known)}")
    return chosen, share


def _report(folder: Path) -> None:
    from palaver.trainers.run.files import METRICS
    from palaver.trainers.run.logging import read_metrics

    for line in read_metrics(folder / METRICS):
        if line["kind"] == "epoch":
            aside = line.get("held_out")
            held_out = f"; held out: nll {aside['nll']:.3f}, accuracy {100 * aside['accuracy']:.1f} %" if aside else ""
            parts = [f"epoch {line['epoch'] + 1}: nll {line['nll']:.3f}", f"accuracy {100 * line['accuracy']:.1f} %"]
            parts += (
                [f"value {line['value_loss']:.3f}", f"kept {100 * line['kept']:.0f} %"] if "value_loss" in line else []
            )
            say(", ".join(parts) + held_out)
