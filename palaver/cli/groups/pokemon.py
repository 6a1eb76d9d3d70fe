"""`palaver pokemon`: simulator, server, recorded battles, and players cloned from them."""

from __future__ import annotations

import json
import re
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from palaver.cli import options
from palaver.cli.groups import battles
from palaver.cli.output import count, errors, note, say
from palaver.core import ConfigError, Sampling, need
from palaver.utils.progress import Bar

if TYPE_CHECKING:
    from palaver.trainers.trajectories.reader import Reader

HELP = """Install the simulator; play on a server; clone battles.

[bold]Examples[/bold]

[cyan]palaver pokemon install[/cyan]  [dim]# the simulator, once[/dim]

[cyan]palaver pokemon ladder typed@1 --games 20[/cyan]  [dim]# on a Showdown server[/dim]

[cyan]palaver pokemon battles show battles/typed[/cyan]

[cyan]palaver pokemon clone battles/typed --out runs/student[/cyan]
"""
INSTALL = """Install the simulator, once: about 160 MB, a minute. It needs Node.js 20 or newer.

Without Node.js: [cyan]pip install 'palaver[node]'[/cyan] brings one.

[bold]Example[/bold]

[cyan]palaver pokemon install[/cyan]
"""
SERVE = """Run the package's own server on this machine, until Ctrl-C.

It listens on 127.0.0.1 alone. Any free name may log in, without a password; it asks no login server and sends nothing
anywhere. Ratings and logs are gone when it ends. Its page in a browser loads Showdown's client from the official host.

[bold]Examples[/bold]

[cyan]palaver pokemon serve[/cyan]

[cyan]palaver pokemon serve --port 8123[/cyan]
"""
LADDER = """Play on a Pokémon Showdown server, through poke-env.

Without --server a server runs as long as the command. An opponent is a player of poke-env, another of ours, or
[bold]anyone[/bold]: every challenger of our player on a running server, also people in a browser.

[bold]Examples[/bold]

[cyan]palaver pokemon ladder typed@1 --opponent poke-env:SimpleHeuristicsPlayer --games 20[/cyan]

[cyan]palaver pokemon ladder hf:MODEL --format gen9randombattle --opponent veteran@1[/cyan]

[cyan]palaver pokemon ladder veteran@1 --opponent anyone --server ws://127.0.0.1:8000/showdown/websocket[/cyan]

It needs poke-env: [cyan]pip install 'palaver\\[poke-env]'[/cyan]. Battles without a server: [cyan]palaver arena[/cyan].
"""
CLONE = """Clone players from recorded battles, as net:FOLDER.

[bold]Examples[/bold]

[cyan]palaver arena pokemon-v1 --players simple@1,typed@1 --games 400 --record runs/battles[/cyan]

[cyan]palaver pokemon clone runs/battles --out runs/student[/cyan]

[cyan]palaver pokemon clone runs/new=3 runs/old=1 --out runs/student2 --start runs/student lr=3e-4[/cyan]

[cyan]palaver pokemon clone runs/battles --out runs/reader model=hf:NAME decisions=64 lr=1e-5[/cyan]

The same command resumes an interrupted one. Settings are listed in docs/battle-net.md.
"""

app = options.group(help=HELP)
app.add_typer(battles.app, name="battles")


@app.command(help=INSTALL)
def install() -> None:
    """Install the simulator."""
    from palaver.envs.pokemon.showdown.install import folder, install, present, version

    if not present():
        note(f"installing pokemon-showdown {version()} into {folder()} ...")
    say(f"pokemon-showdown {version()} is in {install()}")


@app.command(help=SERVE)
def serve(
    port: Annotated[int, typer.Option(min=0, max=65535, help="To listen on; 0 takes a free one.")] = 8000,
    simulators: Annotated[int, typer.Option(min=1, help="Processes that simulate battles.")] = 1,
) -> None:
    """Run a server."""
    from palaver.envs.pokemon.showdown.server import Server

    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that its folder is removed then too
    note("starting Showdown's server ...")
    with Server(port, simulators) as server:
        say(f"listening at {server.address}; Ctrl-C ends it")
        note(f"http://127.0.0.1:{server.port} in a browser loads Showdown's own client from the network")
        note("recorded battles are shown without a network by: palaver view FOLDER")
        server.wait()


@app.command(help=LADDER)
def ladder(
    player: Annotated[
        str, typer.Argument(metavar="PLAYER", help="A heuristic (typed@1), a net (net:FOLDER), a policy (hf:MODEL).")
    ],
    settings: options.Settings = None,
    opponent: Annotated[
        str, typer.Option(help="poke-env:CLASS, a player of ours, or anyone.")
    ] = "poke-env:SimpleHeuristicsPlayer",
    format: Annotated[str, typer.Option(help="Of the battles.")] = "gen1ou",
    games: Annotated[int, typer.Option(min=1, help="How many.")] = 10,
    parallel: Annotated[int, typer.Option(min=1, help="At the same time.")] = 5,
    teams: Annotated[str, typer.Option(help="Team set of both players.")] = "sample",
    server: Annotated[str, typer.Option(metavar="ADDRESS", help="Of a running server. [one of our own]")] = "",
    name: Annotated[str, typer.Option(help="Of our player on the server.")] = "palaver",
    seed: Annotated[int, typer.Option(help="Of choices and team draws; the server has its own random numbers.")] = 0,
    as_json: options.Json = False,
    explain: options.Explain = False,
) -> None:
    """Play on a server."""
    from palaver.benchmarks.showdown_ladder.ladder import Match, run

    chosen = options.settings(options.PlayerSettings, settings)
    if explain:
        options.explain(chosen)
        return
    match = Match(player, opponent, format, games, parallel, teams, server, name, seed)
    result = run(match, chosen.draws(Sampling()), chosen.model.options(), note)
    if as_json:
        say(json.dumps({"player": player, "opponent": opponent, "format": format, **result}))
        return
    say(
        f"{player} against {opponent}, {format}: {result['won']} won, {result['lost']} lost, {result['tied']} tied; "
        f"{count(result['decisions'], 'decision')}, {result['illegal']} illegal"
    )
    if result["error"]:
        note(f"some choices were left to the server: {result['error']}")


@app.command(help=CLONE)
def clone(
    items: Annotated[
        list[str], typer.Argument(metavar="FOLDER[=WEIGHT]... [KEY=VALUE]...", help="Recorded battles, and settings.")
    ],
    out: Annotated[Path, options.out_folder("Of the run; the same command resumes it.")],
    start: Annotated[Path | None, typer.Option(help="A net or a run to begin with.")] = None,
    player: Annotated[str, typer.Option(help="Learn from these players only, separated by commas.")] = "",
    explain: options.Explain = False,
) -> None:
    """Train by behaviour cloning on battles."""
    from palaver.trainers.behaviour_cloning.config import BCConfig

    pairs = [item for item in items if item.partition("=")[0] in BCConfig.model_fields]
    config = options.settings(BCConfig, pairs)
    if explain:
        options.explain(config)
        return
    battles = [item for item in items if item not in pairs]
    if not battles:
        raise ConfigError("name one or more folders of recorded battles")
    need("cloning", "train")
    from palaver.trainers.behaviour_cloning.train import clone as learn

    sources = [_source(item, [piece.strip() for piece in player.split(",") if piece.strip()]) for item in battles]
    with Bar("cloning", errors, transient=True) as bar:

        def show(step: int, steps: int, metrics: dict[str, float]) -> None:
            bar.update(bar.task, shown=f"nll {metrics['nll']:.3f}", completed=step, total=steps)

        result = learn(config, out, sources, start, show)
    _report(out)
    say(str(result))


def _source(text: str, players: list[str]) -> tuple[Reader, float]:
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
