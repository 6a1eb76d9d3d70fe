"""Evaluation of one agent against every opponent: an arena for one player's rating.

    python -m palaver.benchmarks.evaluate_against_all matrix-v1 run:runs/FOLDER game=prisoners-dilemma --games 100

prints the tables as Markdown. `palaver arena ENV --agent NAME` is the same with a live bar.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from palaver.benchmarks.arena.tables import markdown
from palaver.benchmarks.arena.tournament import tournament
from palaver.core import ConfigError, PalaverError
from palaver.registry import spec
from palaver.trainers.matches.config import ALL, TournamentConfig, read_players
from palaver.trainers.matches.standings import Standings
from palaver.utils.config import parse_overrides


def evaluate_against_all(
    env: str, agent: str, folder: Path, *, opponents: str = ALL, resume: bool = False, jobs: int = 1, **settings: Any
) -> Standings:
    """Play `agent` against each of the opponents, which do not meet each other.

    Args:
        env: id.
        agent: a policy, or `label=policy`.
        folder: for the games and the tables.
        opponents: as `read_players` reads them; `all` are those that the environment provides.
        resume: continue with the games in the folder.
        jobs: processes.
        settings: further fields of `palaver.trainers.matches.config.TournamentConfig`.

    Raises:
        PalaverError: see `palaver.benchmarks.arena.tournament.tournament`.
    """
    setting = against_all(env, agent, opponents, **settings)
    return tournament(setting, folder, resume=resume, jobs=jobs, command=shlex.join(sys.argv))[0]


def against_all(env: str, agent: str, opponents: str = ALL, **settings: Any) -> TournamentConfig:
    """Return the setting in which one agent plays all opponents, except itself."""
    env_spec = spec(env)
    mine = read_players(agent, env_spec)
    if len(mine) != 1:
        raise ConfigError(f"one agent is evaluated against all, got {agent!r}; for several use palaver arena")
    label = next(iter(mine))
    others = read_players(opponents, env_spec)
    if others.get(label, mine[label]) != mine[label]:
        raise ConfigError(f"an opponent is called {label!r} too; give the agent another name, as new={mine[label]}")
    return TournamentConfig(env=env_spec.id, players=mine | others, agent=label, **settings)


def main(
    env: Annotated[str, typer.Argument(metavar="ENV")],
    agent: Annotated[str, typer.Argument(metavar="AGENT", help="A policy, or name=policy.")],
    pairs: Annotated[list[str] | None, typer.Argument(metavar="KEY=VALUE", help="Keywords; values are YAML.")] = None,
    opponents: Annotated[str, typer.Option(help="A,B,C, or all that the environment provides.")] = ALL,
    teamsets: Annotated[str, typer.Option(help="Team sets, with commas between.")] = "",
    games: Annotated[int, typer.Option(help="Games against each opponent on each team set.")] = 100,
    seed: Annotated[int, typer.Option(help="Fixes tasks and draws.")] = 0,
    jobs: Annotated[int, typer.Option(min=1, help="Processes.")] = 1,
    out: Annotated[Path, typer.Option(help="Folder for the games and the tables.")] = Path("runs/against-all"),
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the games in the folder.")] = False,
) -> None:
    """Evaluate one agent against all opponents and print the tables as Markdown."""
    try:
        keywords = parse_overrides(pairs or [])
        standings = evaluate_against_all(
            env,
            agent,
            out,
            opponents=opponents,
            resume=resume,
            jobs=jobs,
            keywords=keywords,
            battles=games,
            seed=seed,
            teamsets=tuple(filter(None, teamsets.split(","))),
        )
    except PalaverError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
    typer.echo(markdown(standings))


if __name__ == "__main__":
    typer.run(main)
