"""`palaver pokemon ladder`: our players in battles on a Showdown server."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from palaver.cli import options, recipes
from palaver.cli.output import count, note, say
from palaver.core import Sampling

HELP = """Play on a Pokémon Showdown server, through poke-env.

Without --server a server runs as long as the command. An opponent is a player of poke-env, another of ours, or
[bold]anyone[/bold]: every challenger of our player on a running server, also people in a browser.

[bold]Examples[/bold]

[cyan]palaver pokemon ladder typed@1 --opponent poke-env:SimpleHeuristicsPlayer --games 20[/cyan]

[cyan]palaver pokemon ladder hf:MODEL --format gen9randombattle --opponent veteran@1[/cyan]

[cyan]palaver pokemon ladder veteran@1 --opponent anyone --server ws://127.0.0.1:8000/showdown/websocket[/cyan]

It needs poke-env: [cyan]pip install 'palaver\\[poke-env]'[/cyan]. Battles without a server: [cyan]palaver arena[/cyan].
"""


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("ladder", help=HELP)(ladder)


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
        recipes.explain(chosen)
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
