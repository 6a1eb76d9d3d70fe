"""`palaver envs`: list of environments."""

from __future__ import annotations

import inspect
import json
from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.text import Text

from palaver.cli.output import console, facts, say, table
from palaver.registry import Spec, spec, specs

HELP = """List the environments, or describe one.

[bold]Examples[/bold]

[cyan]palaver envs[/cyan]

[cyan]palaver envs arxiv-v0[/cyan]  [dim]# its keywords with their defaults[/dim]

[cyan]palaver envs arxiv-v0 --json[/cyan]

[cyan]palaver envs textarena[/cyan]  [dim]# the games of TextArena, each tried[/dim]
"""


def envs(
    id: Annotated[str | None, typer.Argument(metavar="ID", help="An environment, as arxiv-v0.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the environments, or describe one."""
    if id in ("textarena", "textarena/"):
        _list_games(as_json)
    elif id is not None:
        env_spec = spec(id)
        typer.echo(json.dumps(describe(env_spec), indent=2)) if as_json else _show(env_spec)
    elif as_json:
        typer.echo(json.dumps([_row(one) for one in specs().values()], indent=2))
    else:
        _list()


def describe(env_spec: Spec) -> dict[str, Any]:
    """Describe one environment as plain data; its keywords are read from its constructor."""
    words = {
        name: {
            "type": _type(p),
            "default": None if p.default is p.empty else _plain(env_spec.kwargs.get(name, p.default)),
        }
        for name, p in env_spec.keywords().items()
        if p.kind is not inspect.Parameter.VAR_KEYWORD
    }
    return {
        **_row(env_spec),
        "scripted": dict(env_spec.scripted),
        "keywords": words,
        "entry_point": _place(env_spec.entry_point),
    }


def _row(env_spec: Spec) -> dict[str, Any]:
    return {
        "id": env_spec.id,
        "agents": list(env_spec.agents),
        "turns": env_spec.turns,
        "max_reward": env_spec.max_reward,
        "dataset": env_spec.dataset,
        "summary": env_spec.summary,
    }


def _list() -> None:
    grid = table("id", "agents", "turns", "max", "summary and data set", right=("turns", "max"))
    for column in grid.columns[:2]:
        column.no_wrap = True
    for one in specs().values():
        about = Text.assemble(one.summary, *([(f" {one.dataset}", "dim")] if one.dataset else []))
        name, agents = Text(one.id, style="bold"), Text(", ".join(one.agents))
        grid.add_row(name, agents, str(one.turns), f"{one.max_reward:g}", about)
    console.print(grid)
    say(Text("\npalaver envs ID shows one with its keywords.", style="dim"))
    say(Text("Games of TextArena are textarena/NAME: palaver envs textarena lists them.", style="dim"))


def _list_games(as_json: bool) -> None:
    """List the games of TextArena: those that can be played here, and why others cannot."""
    from palaver.envs.textarena.games import PREFIX, games, survey

    ids, tried = games(), list(survey())
    if as_json:
        rows = [{**asdict(game), "id": PREFIX + game.id, "ids": [PREFIX + id for id in ids[game.id]]} for game in tried]
        typer.echo(json.dumps(rows, indent=2))
        return
    grid = table("id", "players", "ids", "", right=("players", "ids"))
    for game in tried:
        name = Text(PREFIX + game.id, style="dim" if game.refusal else "bold")
        number = "" if game.refusal else str(game.players)
        grid.add_row(name, number, str(len(ids[game.id])), Text(game.refusal, style="dim"))
    console.print(grid)
    playable = [game for game in tried if not game.refusal]
    several = sum(game.players > 1 for game in playable)
    say(
        Text(f"\n{len(playable)} of {len(tried)} games can be played here, {several} of them by several players."),
        Text(
            "players: the smallest number from two; ids: variants, of each of which -train has short texts.",
            style="dim",
        ),
    )


def _show(env_spec: Spec) -> None:
    about = describe(env_spec)
    say(Text(env_spec.id, style="bold"), env_spec.summary)
    console.print()
    console.print(
        facts(
            {
                "agents": ", ".join(env_spec.agents),
                "turns": env_spec.turns,
                "upper bound of a turn's reward": f"{env_spec.max_reward:g}",
                "data set": env_spec.dataset or "none but the sample",
                "scripted policies": ", ".join(f"scripted:{name}" for name in env_spec.scripted) or "none",
                "tiny model": "yes" if env_spec.demonstrations else "no",
                "defined in": about["entry_point"],
            }
        )
    )
    console.print()
    grid = table("keyword", "default", "type")
    for name, word in about["keywords"].items():
        grid.add_row(Text(name, style="bold"), Text(json.dumps(word["default"])), Text(word["type"], style="dim"))
    console.print(grid)
    say(Text(f"\npalaver play {env_spec.id} --team random KEYWORD=VALUE tries one.", style="dim"))


def _place(entry_point: Any) -> str:
    """`module:attribute` of an entry point."""
    creator = getattr(entry_point, "func", entry_point)  # of a partial
    return creator if isinstance(creator, str) else f"{creator.__module__}:{creator.__qualname__}"


def _type(parameter: inspect.Parameter) -> str:
    if parameter.annotation is inspect.Parameter.empty:
        return ""
    return (
        parameter.annotation
        if isinstance(parameter.annotation, str)
        else inspect.formatannotation(parameter.annotation)
    )


def _plain(value: object) -> Any:
    """Return a default as JSON data; an object by its name."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple | set | frozenset):
        return [_plain(item) for item in value]
    return (
        {str(k): _plain(v) for k, v in value.items()}
        if isinstance(value, dict)
        else getattr(value, "__name__", str(value))
    )
