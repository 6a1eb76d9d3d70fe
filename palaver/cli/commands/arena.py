"""`palaver arena`: games between players, with ratings and intervals."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import Field
from rich.text import Text

from palaver.cli import folders, options
from palaver.cli.output import console, count, errors, note, print_error, print_tables, resumable, say
from palaver.core import CheckpointError, ConfigError, Sampling, need
from palaver.trainers.run.files import RUNS, fresh
from palaver.utils.config import Section
from palaver.utils.progress import Bar

if TYPE_CHECKING:
    from palaver.trainers.matches import standings
    from palaver.trainers.matches.config import TournamentConfig
    from palaver.trainers.matches.recording import Recording
    from palaver.trainers.matches.results import GameResult

HELP = """Play a tournament: scores by pair and ratings.

[bold]Examples[/bold]

[cyan]palaver arena matrix-v1 game=prisoners-dilemma repeats=5 --players legal,first,last --games 40[/cyan]

[cyan]palaver arena matrix-v1 game=prisoners-dilemma --agent run:runs/FOLDER --players all[/cyan]  [dim]# one against \
all[/dim]

[cyan]palaver arena matrix-v1 game=prisoners-dilemma --games 1000 --dry-run[/cyan]  [dim]# how long?[/dim]

Every match is played twice, sides swapped. The same command with --resume resumes an interrupted tournament.
"""
PLAYERS_HELP = (
    "A,B,C or name=POLICY: [bold]random[/bold], [bold]tiny[/bold], [bold]scripted:NAME[/bold], "
    "[bold]hf:MODEL_OR_FOLDER[/bold], [bold]run:FOLDER[/bold], or a player of the environment by its name; "
    "[bold]all[/bold] are those that it provides and whose extras are installed."
)


class TournamentSettings(Section):
    """Settings of a tournament that are seldom changed."""

    parallel: int = Field(32, ge=1, description="games that a process advances together")
    anchor_elo: float = Field(1000.0, description="the anchor's rating")
    record_text: bool = Field(False, description="record the observations as text too")


class ArenaSettings(options.PlayerSettings):
    """Settings of `palaver arena` that are no options."""

    tournament: TournamentSettings = TournamentSettings()


def arena(
    env: Annotated[str, typer.Argument(metavar="ENV", help="A competitive environment, as matrix-v1.")],
    pairs: options.Pairs = None,
    players: Annotated[str, typer.Option("--players", "-p", help=PLAYERS_HELP)] = "all",
    agent: Annotated[str, typer.Option(help="Plays against all others, which do not play each other.")] = "",
    teamsets: Annotated[str, typer.Option(help="Values of the keyword for team sets, separated by commas.")] = "",
    games: Annotated[int, typer.Option("--games", "-n", help="Games of each pairing on each team set.")] = 100,
    seed: options.Seed = 0,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, help="Processes.")] = 1,
    anchor: Annotated[str, typer.Option(help="Player whose rating is fixed.", show_default="the first player")] = "",
    out: Annotated[Path | None, options.out_folder("Of games and tables.", "runs/arena-ENV-TIME")] = None,
    record: Annotated[Path | None, typer.Option(help="Folder that gets both sides' decisions, to learn from.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Resume --out, or the newest tournament of ENV.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the games to play and the estimated time.")] = False,
    explain: options.Explain = False,
) -> None:
    """Play games between players and rate them."""
    from palaver.benchmarks.arena.tournament import check
    from palaver.benchmarks.evaluate_against_all import against_all
    from palaver.registry import spec
    from palaver.trainers.matches.config import ALL, TournamentConfig, left_out, read_players
    from palaver.trainers.matches.recording import Recording

    chosen, keywords = options.split(ArenaSettings, pairs)
    if explain:
        options.explain(chosen)
        note(f"keywords of the environment: palaver envs {env}")
        return
    settings: dict[str, Any] = {
        "keywords": keywords,
        "teamsets": tuple(name.strip() for name in teamsets.split(",") if name.strip()),
        "battles": games,
        "seed": seed,
        "parallel": chosen.tournament.parallel,
        "force": chosen.model.force,
        "sampling": chosen.draws(Sampling()),
        "options": chosen.model.options(),
    }
    env_spec = spec(env)
    if agent:
        setting = against_all(env_spec.id, agent, players, **settings)
    else:
        setting = TournamentConfig(env=env_spec.id, players=read_players(players, env_spec), **settings)
    if ALL in players.split(","):
        for player, extra in left_out(env_spec).items():
            note(f"left out of {ALL}: {player}, which needs pip install 'palaver[{extra}]'")
    anchor = check(setting, anchor)
    texts = chosen.tournament.record_text
    if texts and record is None:
        raise ConfigError("tournament.record_text=true needs --record FOLDER")
    recording = Recording(record, texts) if record else None
    need("an arena", "train", "matplotlib")
    folder = out or (_newest(env_spec.id) if resume else fresh(f"arena-{env_spec.id}"))
    if dry_run:
        _estimate(setting, folder, resume, jobs)
    else:
        _show(*_play(setting, folder, resume, jobs, anchor, chosen.tournament.anchor_elo, recording))
        if recording:
            say(str(recording.folder))


def _newest(env: str) -> Path:
    folder = folders.latest(f"arena-{env}", "settings.json")
    if folder is None:
        raise CheckpointError(f"there is no arena of {env} in {str(RUNS)!r}; name its folder with --out")
    return folder


def _estimate(setting: TournamentConfig, folder: Path, resume: bool, jobs: int) -> None:
    from palaver.benchmarks.arena.tournament import estimate
    from palaver.trainers.matches.results import GAMES, read_games
    from palaver.utils.stats.effects import games_for

    forecast = estimate(setting, read_games(folder / GAMES) if resume else (), jobs)
    sets = f", {count(len(setting.sets), 'team set')}" if setting.teamsets else ""
    judged = f"judged by {count(forecast.probed, 'game')} played now" if forecast.probed else "judged by the games done"
    say(f"{count(len(setting.players), 'player')}, {count(len(setting.pairs), 'pairing')}{sets}")
    where = "one process" if jobs == 1 else f"{jobs} processes"
    time = f"about {_time(forecast.seconds)} in {where}"
    say(f"{count(forecast.games, 'game')} to play, {time}", Text(f"({judged})", style="dim"))
    width = next((w for w in (1, 2, 3, 5, 10, 15, 20, 30) if games_for(w / 100) <= setting.battles), 40)
    say(Text(f"a score near one half will be known to ± {width} points or so; nothing was written", style="dim"))


def _time(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.1f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def _play(
    setting: TournamentConfig,
    folder: Path,
    resume: bool,
    jobs: int,
    anchor: str,
    at: float,
    recording: Recording | None,
) -> tuple[standings.Standings, list[Path]]:
    from palaver.benchmarks.arena.tournament import tournament

    command = shlex.join(["palaver", *sys.argv[1:]])
    with resumable(f"the same command and --resume --out {folder}"), _bar(folder) as (start, report):
        return tournament(
            setting,
            folder,
            resume=resume,
            jobs=jobs,
            anchor=anchor,
            at=at,
            command=command,
            start=start,
            report=report,
            note=note,
            recording=recording,
        )


@contextmanager
def _bar(folder: Path) -> Iterator[tuple[Any, Any]]:
    """Live bar over the games; yields the callbacks for the start and for each game."""
    progress = Bar("games", errors)

    def start(done: int, total: int) -> None:
        errors.print(Text.assemble("arena ", (str(folder), "bold")), soft_wrap=True)
        progress.update(progress.task, total=total, completed=done)
        progress.start()

    def report(played: GameResult) -> None:
        game = played.game
        if played.failed:
            progress.print(Text(f"failed: {game.first} against {game.second}: {played.failed}", style="red"))
        ends = {1.0: "beat", 0.5: "tied with", 0.0: "lost to"}[played.score]
        progress.update(progress.task, shown=f"{game.first} {ends} {game.second}", advance=1)

    try:
        yield start, report
    finally:
        progress.stop()


def _show(result: standings.Standings, paths: list[Path]) -> None:
    """Print the ratings of every team set, and the paths of the files."""
    from palaver.benchmarks.arena.tables import gaps, ratings

    for pair_table in result.tables:
        console.print()
        print_tables(ratings(result, pair_table))
        if pair_table.dispersion > 1.5:
            note(
                f"over-dispersion {pair_table.dispersion:.1f}: strengths alone do not explain the scores by pair; "
                "see the matrix"
            )
    if result.gaps:
        console.print()
        print_tables(gaps(result))
    console.print()
    say("\n".join(map(str, paths)))
    if result.failed:
        print_error(
            f"{count(result.failed, 'game')} failed and do not count; the same command with --resume plays them again"
        )
        raise typer.Exit(1)
