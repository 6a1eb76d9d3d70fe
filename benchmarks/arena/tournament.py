"""Tournament from settings to tables, for `palaver arena` and `evaluate_against_all`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from palaver.benchmarks.arena import tables as view
from palaver.core import ConfigError, did_you_mean
from palaver.trainers.matches import players
from palaver.trainers.matches import workers as pool
from palaver.trainers.matches.config import GameSpec, TournamentConfig
from palaver.trainers.matches.recording import Recording
from palaver.trainers.matches.results import GAMES, GameResult, describe, prepare, read_games
from palaver.trainers.matches.standings import MIDDLE, Standings, standings
from palaver.utils.provenance import provenance
from palaver.utils.run_folder import locked

PROBES = 12  # pairings that an estimate plays at most


@dataclass(frozen=True)
class TimeEstimate:
    """Number of games to play, their estimated seconds, and games `probed` for the estimate."""

    games: int
    seconds: float
    probed: int


def check(setting: TournamentConfig, anchor: str = "") -> str:
    """Validate the setting before any work and return the anchor.

    The default anchor is the first player that is not the agent.

    Raises:
        ConfigError, TaskError: see `TournamentConfig.environment`; the anchor is no player.
        PolicyError: there is no such player.
    """
    for teamset in setting.sets:
        setting.environment(teamset).close()
    for name in setting.players.values():
        players.check(setting, name)
    if anchor and anchor not in setting.players:
        raise ConfigError(f"the anchor {anchor!r} is not among the players.{did_you_mean(anchor, setting.players)}")
    return anchor or next(label for label in setting.players if label != setting.agent)


def estimate(setting: TournamentConfig, done: Sequence[GameResult] = (), jobs: int = 1) -> TimeEstimate:
    """Estimate the time of the missing games from those done, else from a game of some pairings.

    Loading is not counted, and two processes are taken to be twice as fast as one.
    """
    waiting = pool.missing(setting, done)
    probed = 0
    if waiting and not done:
        done = pool.run(setting, _probes(setting), None)
        probed = len(done)
    seconds: dict[tuple[str, str], list[float]] = defaultdict(list)
    for played in done:
        seconds[played.game.first, played.game.second].append(played.seconds)
    mean = fmean(duration for durations in seconds.values() for duration in durations) if seconds else 0.0
    total = sum(fmean(seconds.get((game.first, game.second), [mean])) for game in waiting)
    return TimeEstimate(len(waiting), total / max(1, min(jobs, len(waiting))), probed)


def _probes(setting: TournamentConfig) -> list[GameSpec]:
    """A first game of some pairings, in which every player appears."""
    pairs: list[tuple[str, str]] = []
    seen: set[str] = set()
    for pair in setting.pairs:
        if len(setting.pairs) <= PROBES or not set(pair) <= seen:
            pairs.append(pair)
            seen |= set(pair)
    return [GameSpec(setting.sets[0], *pair, 0, False) for pair in pairs]


def tournament(
    setting: TournamentConfig,
    folder: Path,
    *,
    resume: bool = False,
    jobs: int = 1,
    anchor: str = "",
    at: float = MIDDLE,
    command: str = "",
    start: Callable[[int, int], None] = lambda _done, _all: None,
    report: Callable[[GameResult], None] = lambda _: None,
    note: Callable[[str], None] = lambda _: None,
    recording: Recording | None = None,
) -> tuple[Standings, list[Path]]:
    """Play the missing games, then write the tables; returns the standings and the files.

    Args:
        setting: of the arena.
        folder: gets `settings.json`, `games.jsonl` and what `view.write` writes.
        resume: continue with the games in the folder.
        jobs: processes.
        anchor: the player whose rating is `at`; "" for the first.
        at: in Elo.
        command: that repeats it, for the record.
        start: called with the number of finished games and of all games.
        report: called with each finished game.
        note: called with warnings about players.
        recording: also stores the battles; games missing in it are played again.

    Raises:
        PalaverError: settings that do not fit, a player that does not exist, a worker that died.
    """
    anchor = check(setting, anchor)
    if recording:
        recording.check(setting)
    with locked(folder):
        settings, origin = describe(setting), provenance()
        done = prepare(settings, folder, resume)
        if recording:
            done = recording.held(setting, done)
        waiting, wanted = pool.missing(setting, done), setting.games()
        start(len(wanted) - len(waiting), len(wanted))
        failed = len(waiting) - len(pool.run(setting, waiting, folder, jobs, report, note, recording))
        ended = {played.game: played for played in read_games(folder / GAMES)}
        games = [ended[game] for game in wanted if game in ended]
        metadata = {
            "env": settings["env"],
            "command": command,
            "settings": settings | {"battles": setting.battles, "teamsets": list(setting.teamsets)},
            "seconds": round(sum(played.seconds for played in games), 3),
            "provenance": origin,
        }
        tables = standings(games, list(setting.players), anchor, at=at, failed=failed, provenance=metadata)
        return tables, view.write(tables, folder)
