"""Playing the games that are missing, in this process or in several; every finished game is in the file at once.

A worker is a fresh process (`spawn`) that loads the players for itself and sends each game as it ends. It ends with the
process that started it.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Sequence
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path

from palaver.benchmarks.arena.match import play
from palaver.benchmarks.arena.plan import Game, Setting
from palaver.benchmarks.arena.players import cast
from palaver.benchmarks.arena.record import Log, Played
from palaver.benchmarks.arena.recording import Recording, recorder
from palaver.core import PalaverError, PolicyError
from palaver.envs.pools import collect

WATCH_S = 1.0  # how often the workers are looked at
END_S = 10.0  # for a worker that has closed its pipe to end by itself
Pipe = connection.Connection


def missing(setting: Setting, done: Iterable[Played]) -> list[Game]:
    """The games that have not been played to their end, in order."""
    known = {played.game for played in done}
    return [game for game in setting.games() if game not in known]


def run(
    setting: Setting,
    games: Sequence[Game],
    folder: Path | None,
    jobs: int = 1,
    report: Callable[[Played], None] = lambda _: None,
    note: Callable[[str], None] = lambda _: None,
    recording: Recording | None = None,
) -> list[Played]:
    """Play the games; the records of those that count. Interrupted at any moment, what has ended is in the file.

    Args:
        setting: of the arena.
        games: to be played.
        folder: `games.jsonl` in it gets a line for every game; None writes nothing.
        jobs: processes; 1 is this one.
        report: is told each game as it ends.
        note: is told what the user should know of a player.
        recording: where the battles go too.

    Raises:
        PolicyError: a worker died; what it had not finished can be played by resuming.
    """
    jobs = min(jobs, len(games))
    found = []
    with contextlib.ExitStack() as stack:
        log = stack.enter_context(Log(folder)) if folder else None
        ended = _here(setting, games, recording, note) if jobs <= 1 else _there(setting, games, recording, jobs)
        for played in stack.enter_context(contextlib.closing(ended)):
            if log:
                log.add(played)
            report(played)
            if not played.failed:
                found.append(played)
    return found


def _here(
    setting: Setting,
    games: Sequence[Game],
    recording: Recording | None,
    note: Callable[[str], None] = lambda _: None,
) -> Generator[Played, None, None]:
    """Team set by team set, in this process."""
    players = None
    with recorder(setting, recording) as watch:
        for teamset in dict.fromkeys(game.teamset for game in games):
            env = setting.environment(teamset)
            players = players or cast(setting, env, note)
            with contextlib.closing(env):
                yield from play(setting, env, players, [game for game in games if game.teamset == teamset], watch)


def _there(
    setting: Setting, games: Sequence[Game], recording: Recording | None, jobs: int
) -> Generator[Played, None, None]:
    """In `jobs` processes; the two games of a match stay together."""
    order = {match: n for n, match in enumerate(dict.fromkeys(game[:4] for game in games))}
    busy: dict[Pipe, tuple[BaseProcess, int]] = {}
    dead = None
    try:
        for job in range(jobs):
            share = [game for game in games if order[game[:4]] % jobs == job]
            here, process = _start(setting, share, recording)
            busy[here] = (process, len(share))
        while busy:
            for pipe in connection.wait(list(busy), WATCH_S):
                assert isinstance(pipe, Pipe)
                process, left = busy[pipe]
                try:
                    told = pipe.recv()
                except (EOFError, ConnectionResetError):
                    code = collect(process, END_S)
                    dead = code if left else dead
                    del busy[pipe]
                    continue
                if isinstance(told, PalaverError):
                    raise told
                busy[pipe] = (process, left - 1)
                yield told
    finally:
        for process, _ in busy.values():
            collect(process)
    if dead is not None:
        raise PolicyError(f"a process of the arena ended with {dead} before its games did; play the rest with --resume")


def _start(setting: Setting, games: Sequence[Game], recording: Recording | None) -> tuple[Pipe, BaseProcess]:
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe(duplex=False)
    process = context.Process(target=_serve, args=(there, setting, games, recording), daemon=False)
    process.start()
    there.close()
    return here, process


def _serve(pipe: Pipe, setting: Setting, games: Sequence[Game], recording: Recording | None) -> None:
    """The life of a worker. Ctrl-C reaches it too and is left to the parent. Processes that all compute with as many
    threads as there are cores wait for each other, so each computes with one where nothing else is asked for.
    """
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_leave_with_parent, daemon=True).start()
    try:
        for played in _here(setting, games, recording):
            pipe.send(played)
    except PalaverError as mistake:
        pipe.send(mistake)
    except BrokenPipeError:
        return


def _leave_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
    os._exit(1)
