"""Playing the games that are missing, in this process or in several.

Every finished game is in the file at once. A worker is a fresh process (`spawn`) that loads the players for itself,
sends each game as it ends, and before every turn which games it plays. It ends with the process that started it. One
that has died or sends nothing for too long is killed, and a fresh one plays what it had left. A game that failed, or
was being played when its process was lost, is played again from its beginning, alone, `TRIES` times at most; then it
counts as failed and the others continue. Games depend on their own seeds alone, so a game played again ends as it
would have ended.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing import connection
from pathlib import Path

from palaver.core import EpisodeLostError, PalaverError, PolicyError
from palaver.trainers.matches.config import GameSpec, TournamentConfig
from palaver.trainers.matches.play import failed, play
from palaver.trainers.matches.players import load_players
from palaver.trainers.matches.recording import Recording, recorder
from palaver.trainers.matches.results import GameResult, Log
from palaver.utils.workers import join_or_kill

END_S = 10.0  # for a worker that has closed its pipe to end by itself
Pipe = connection.Connection
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
            else _Crew(setting, recording, note).play(games, jobs)
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
    turn: Callable[[Sequence[GameSpec]], None] = lambda _: None,
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
    with recorder(setting, recording) as watch:
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


@dataclass
class _Worker:
    """A process, from its parent's side.

    Attributes:
        pipe: on which it sends.
        left: games that it has not ended, in order.
        playing: those of them that it was at by its last message; none before it has loaded its players.
        last_message_at: when it last sent something.
        loaded: whether it has begun to play.
    """

    process: multiprocessing.process.BaseProcess
    pipe: Pipe
    left: dict[GameSpec, None]
    playing: Sequence[GameSpec] = ()
    last_message_at: float = field(default_factory=time.monotonic)
    loaded: bool = False

    def patience(self, setting: TournamentConfig) -> float:
        """Seconds that are left to it before it counts as stalled."""
        limit = setting.patience if self.loaded else LOADING * setting.patience
        return self.last_message_at + limit - time.monotonic()

    def end(self) -> int | None:
        """Kill it where it lives; how it ended."""
        code = join_or_kill(self.process)
        self.pipe.close()
        return code


class _Crew:
    """Processes that play the games of an arena.

    Args:
        setting: of the arena.
        recording: where the battles go too.
        note: called for every process that was lost.
    """

    def __init__(self, setting: TournamentConfig, recording: Recording | None, note: Callable[[str], None]) -> None:
        self.setting, self.recording, self.note = setting, recording, note
        self.workers: list[_Worker] = []
        self.tries: Counter[GameSpec] = Counter()  # processes that were lost while they played it
        self.barren = 0

    def play(self, games: Sequence[GameSpec], jobs: int) -> Generator[GameResult, None, None]:
        """In `jobs` processes; the two games of a match stay together."""
        order = {match: n for n, match in enumerate(dict.fromkeys(game[:4] for game in games))}
        try:
            for job in range(jobs):
                self.start([game for game in games if order[game[:4]] % jobs == job])
            while self.workers:
                wait = max(0.0, min(worker.patience(self.setting) for worker in self.workers))
                ready = connection.wait([worker.pipe for worker in self.workers], wait)
                for worker in list(self.workers):
                    if worker.pipe in ready:
                        yield from self.receive(worker)
                    elif worker.patience(self.setting) <= 0:
                        silent_s = time.monotonic() - worker.last_message_at
                        yield from self.lose(worker, f"sent nothing for {silent_s:.0f} seconds and was killed")
        finally:
            for worker in self.workers:
                worker.end()

    def start(self, games: Sequence[GameSpec]) -> None:
        """A process that plays these; those that have been lost with a process before one at a time."""
        context = multiprocessing.get_context("spawn")
        receiver, sender = context.Pipe(duplex=False)
        together = [game for game in games if not self.tries[game]]
        alone = [game for game in games if self.tries[game]]
        process = context.Process(
            target=_serve, args=(sender, self.setting, together, alone, self.recording), daemon=False
        )
        process.start()
        sender.close()
        self.workers.append(_Worker(process, receiver, dict.fromkeys([*together, *alone])))

    def receive(self, worker: _Worker) -> Generator[GameResult, None, None]:
        """Take what it sends.

        Raises:
            PalaverError: what it met with.
        """
        try:
            message = worker.pipe.recv()
        except (EOFError, OSError):
            if worker.left:
                yield from self.lose(worker, "ended")
            else:
                self.workers.remove(worker)
                join_or_kill(worker.process, END_S)
                worker.pipe.close()
            return
        worker.last_message_at, worker.loaded = time.monotonic(), True
        if isinstance(message, EpisodeLostError):  # before a game began; the process ends by itself
            self.note(str(message))
        elif isinstance(message, PalaverError):
            raise message
        elif isinstance(message, GameResult):
            self.barren = 0
            worker.left.pop(message.game)
            yield message
        else:
            worker.playing = message

    def lose(self, worker: _Worker, why: str) -> Generator[GameResult, None, None]:
        """Let a fresh process play the remaining games of a lost one.

        Games that were tried too often have failed.

        Raises:
            PolicyError: several in a row have not ended a game.
        """
        self.workers.remove(worker)
        code = worker.end()
        why = f"a process of the arena {why}" + (f" with {code}" if why == "ended" else "")
        self.barren += 1
        for game in worker.playing:
            if game in worker.left:
                self.tries[game] += 1
                if self.tries[game] >= TRIES:
                    del worker.left[game]
                    self.barren = 0
                    yield failed(game, f"{why}, as did {TRIES - 1} others with this game")
        if self.barren >= BARREN:
            raise PolicyError(f"{why}, the last of {BARREN} that ended no game; play the rest with --resume")
        if worker.left:
            self.note(f"{why}; its games are played again")
            self.start(list(worker.left))


def _serve(
    pipe: Pipe,
    setting: TournamentConfig,
    games: Sequence[GameSpec],
    alone: Sequence[GameSpec],
    recording: Recording | None,
) -> None:
    """Main function of a worker; Ctrl-C is ignored and left to the parent.

    Each process computes with one thread unless set otherwise, for more than the cores slow each other down.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    try:
        for played in _play_in_process(setting, games, recording, turn=_Pulse(pipe), alone=alone):
            pipe.send(played)
    except PalaverError as mistake:
        pipe.send(mistake)
    except BrokenPipeError:
        return


class _Pulse:
    """Sends the games that are being played when they change, and once a second.

    Args:
        pipe: to the parent.
    """

    def __init__(self, pipe: Pipe) -> None:
        self.pipe = pipe
        self.games: list[GameSpec] = []
        self.sent = 0.0

    def __call__(self, games: Sequence[GameSpec]) -> None:
        """Before every turn."""
        now = time.monotonic()
        if list(games) != self.games or now > self.sent + 1:
            self.games, self.sent = list(games), now
            self.pipe.send(self.games)


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
    os._exit(1)
