"""`palaver pokemon clone`: behaviour cloning from recorded battles."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from palaver.cli import options, recipes
from palaver.cli.output import errors, say
from palaver.core import ConfigError

if TYPE_CHECKING:
    from palaver.trainers.behaviour_cloning.mixture import Source

HELP = """Clone players from recorded battles, as net:FOLDER.

[bold]Examples[/bold]

[cyan]palaver arena pokemon-v1 --players simple@1,typed@1 --games 400 --record runs/battles[/cyan]

[cyan]palaver pokemon clone runs/battles --out runs/student[/cyan]

[cyan]palaver pokemon clone runs/new=3 runs/old=1 --out runs/student2 --start runs/student lr=3e-4[/cyan]

[cyan]palaver pokemon clone runs/battles --out runs/reader model=hf:NAME decisions=64 lr=1e-5[/cyan]

The same command resumes an interrupted one. Settings are listed in docs/battle-net.md.
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("clone", help=HELP)(clone)


def clone(
    items: Annotated[
        list[str], typer.Argument(metavar="FOLDER[=WEIGHT]... [KEY=VALUE]...", help="Recorded battles, and settings.")
    ],
    out: Annotated[Path, typer.Option(help="Folder of the run.")],
    start: Annotated[Path | None, typer.Option(help="A net or a run to begin with.")] = None,
    player: Annotated[str, typer.Option(help="Learn from these players only, separated by commas.")] = "",
    explain: options.Explain = False,
) -> None:
    """Train by behaviour cloning on battles."""
    from palaver.trainers.behaviour_cloning.config import BCConfig

    pairs = [item for item in items if item.partition("=")[0] in BCConfig.model_fields]
    config = options.settings(BCConfig, pairs)
    if explain:
        recipes.explain(config)
        return
    battles = [item for item in items if item not in pairs]
    if not battles:
        raise ConfigError("name one or more folders of recorded battles")
    from palaver.trainers.behaviour_cloning.train import clone as learn

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
