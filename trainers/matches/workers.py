"""Playing the games that are missing, in this process or in several.

Every finished game is in the file at once. A worker process loads the players for itself, sends each game as it ends,
and before every turn which games it plays. If it dies or sends nothing for too long, another one plays the rest. A game
that failed, or was being played when its process was lost, is played again from its beginning, alone, `TRIES` times at
most; then it counts as failed and the others continue. Games depend on their own seeds alone, so a game played again
ends as it would have ended.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from palaver.core import EpisodeLostError, PalaverError, PolicyError
from palaver.trainers.matches.config import GameSpec, TournamentConfig
from palaver.trainers.matches.play import failed, play
from palaver.trainers.matches.players import load_players
from palaver.trainers.matches.recording import Recording, recorder
from palaver.trainers.matches.results import GameResult, Log
from palaver.utils.workers import Lost, Send, WorkerPool

TRIES = 3  # times that a game is played at most
BARREN = 2 * TRIES  # processes lost in a row without one game ended, after which the arena is given up
LOADING = 4  # times the patience, for a process that loads its players


def missing(setting: TournamentConfig, done: Iterable[GameResult]) -> list[GameSpec]:
    """The games that have not been played to their end, in order."""
    known = {played.game for played in done}
    return [game for game in setting.games() if game not in known]


def run(
    setting: TournamentConfig,
    games: Sequence[GameSpec],
    folder: Path | None,
    jobs: int = 1,
    report: Callable[[GameResult], None] = lambda _: None,
    note: Callable[[str], None] = lambda _: None,
    recording: Recording | None = None,
) -> list[GameResult]:
    """Play the games and return the records of those that count.

    After an interruption the file has every game that has ended.

    Args:
        setting: of the arena.
        games: to be played.
        folder: `games.jsonl` in it gets a line for every game; None writes nothing.
        jobs: processes; 1 is this one.
        report: called with each game as it ends.
        note: called with what the user should know of a player, or of a process that was lost.
        recording: where the battles go too.

    Raises:
        PolicyError: processes were lost one after the other, and none of them ended a game.
    """
    jobs = min(jobs, len(games))
    results = []
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(Log(folder)) if folder else None
        ended = (
            _play_in_process(setting, games, recording, note)
            if jobs <= 1
            else _Crew(setting, recording, note, jobs).play(games)
        )
        for played in stack.enter_context(contextlib.closing(ended)):
            if log:
                log.add(played)
            report(played)
            if not played.failed:
                results.append(played)
    return results


def _play_in_process(
    setting: TournamentConfig,
    games: Sequence[GameSpec],
    recording: Recording | None,
    note: Callable[[str], None] = lambda _: None,
    turn: Callable[[Sequence[GameSpec]], None] | None = None,
    alone: Sequence[GameSpec] = (),
) -> Generator[GameResult, None, None]:
    """Play in this process, team set by team set.

    Failed games are played again at the end, one at a time.

    Args:
        setting: of the arena.
        games: to be played together.
        recording: where the battles go too.
        note: see `run`.
        turn: is called before every turn with the games that are being played.
        alone: to be played one at a time.
    """
    players = None
    todo = [(setting, games), (replace(setting, parallel=1), alone)]
    tries: Counter[GameSpec] = Counter()
    with recorder(setting, recording) if recording else contextlib.nullcontext() as watch:
        for how, given in todo:
            again = []
            for teamset in dict.fromkeys(game.teamset for game in given):
                env = how.environment(teamset)
                players = players or load_players(how, env, note)
                with contextlib.closing(env):
                    wanted = [game for game in given if game.teamset == teamset]
                    for played in play(how, env, players, wanted, watch, turn):
                        tries[played.game] += 1
                        if played.failed and tries[played.game] < TRIES:
                            again.append(played.game)
                        else:
                            yield played
            if again:
                todo.append((replace(setting, parallel=1), again))


@dataclass(eq=False)
class _Share:
    """Games for one process.

    Attributes:
        together: to be played together.
        alone: to be played one at a time, as they have been lost with a process before.
        left: those of them that have not ended, in order.
        playing: those of them that were being played at the last message; none before the players are loaded.
    """

    together: Sequence[GameSpec]
    alone: Sequence[GameSpec] = ()
    left: dict[GameSpec, None] = field(init=False)
    playing: Sequence[GameSpec] = ()

    def __post_init__(self) -> None:
        self.left = dict.fromkeys([*self.together, *self.alone])


class _Crew:
    """Processes that play the games of an arena.

    Args:
        setting: of the arena.
        recording: where the battles go too.
        note: called for every process that was lost.
        jobs: processes.
    """

    def __init__(
        self, setting: TournamentConfig, recording: Recording | None, note: Callable[[str], None], jobs: int
    ) -> None:
        self.note, self.jobs = note, jobs
        self.tries: Counter[GameSpec] = Counter()  # processes that were lost while they played it
        self.barren = 0
        work = partial(_play_share, setting, recording)
        self.pool = WorkerPool[_Share](work, jobs, setting.patience, loading=LOADING * setting.patience)

    def play(self, games: Sequence[GameSpec]) -> Generator[GameResult, None, None]:
        """The two games of a match stay together.

        Raises:
            PalaverError: what a process met with, or see `lose`.
        """
        order = {match: n for n, match in enumerate(dict.fromkeys(game[:4] for game in games))}
        with self.pool:
            for job in range(self.jobs):
                self.pool.submit(_Share([game for game in games if order[game[:4]] % self.jobs == job]))
            for share, message in self.pool:
                if isinstance(message, Lost):
                    yield from self.lose(share, message)
                elif isinstance(message, EpisodeLostError):  # before a game began; the process ends by itself
                    self.note(str(message))
                elif isinstance(message, PalaverError):
                    raise message
                elif isinstance(message, GameResult):
                    self.barren = 0
                    share.left.pop(message.game)
                    yield message
                elif message is not None:
                    share.playing = message

    def lose(self, share: _Share, lost: Lost) -> Generator[GameResult, None, None]:
        """Let a fresh process play the remaining games of a lost one.

        Games that were tried too often have failed.

        Raises:
            PolicyError: several in a row have not ended a game.
        """
        how = f"sent nothing for {lost.silent_s:.0f} seconds and was killed"
        why = "a process of the arena " + (how if lost.silent_s else f"ended with {lost.exit_code}")
        self.barren += 1
        for game in share.playing:
            if game in share.left:
                self.tries[game] += 1
                if self.tries[game] >= TRIES:
                    del share.left[game]
                    self.barren = 0
                    yield failed(game, f"{why}, as did {TRIES - 1} others with this game")
        if self.barren >= BARREN:
            raise PolicyError(f"{why}, the last of {BARREN} that ended no game; play the rest with --resume")
        if share.left:
            self.note(f"{why}; its games are played again")
            together = [game for game in share.left if not self.tries[game]]
            self.pool.submit(_Share(together, [game for game in share.left if self.tries[game]]))


def _play_share(setting: TournamentConfig, recording: Recording | None, share: _Share, send: Send) -> None:
    """Play the games of a share in a worker process.

    Each process computes with one thread unless set otherwise, for more than the cores slow each other down.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    pulse = _Pulse(send)
    try:
        for played in _play_in_process(setting, share.together, recording, turn=pulse, alone=share.alone):
            send(played)
    except PalaverError as mistake:
        send(mistake)
        sys.exit()


class _Pulse:
    """Sends the games that are being played when they change, and once a second.

    Args:
        send: sends to the parent.
    """

    def __init__(self, send: Send) -> None:
        self.send = send
        self.games: list[GameSpec] = []
        self.sent = 0.0

    def __call__(self, games: Sequence[GameSpec]) -> None:
        """Before every turn."""
        now = time.monotonic()
        if list(games) != self.games or now > self.sent + 1:
            self.games, self.sent = list(games), now
            self.send(self.games)
