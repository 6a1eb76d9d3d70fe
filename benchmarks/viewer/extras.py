"""Data recomputed from the environment, as records lack it: frames of turns, test results."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from palaver.benchmarks.reports.frames import FrameRenderer, drawable
from palaver.benchmarks.reports.run_folder import RunFolder
from palaver.benchmarks.viewer.album import Album
from palaver.core import PalaverError
from palaver.envs.base.env import TextEnv, as_heard
from palaver.envs.code import answers
from palaver.envs.code.base import PairEnv, run
from palaver.envs.code.programs import AUX, join
from palaver.envs.code.prompts import MAIN, SOLO
from palaver.episodes import Episode
from palaver.text import clean, one_line
from palaver.trainers.rollout.episodes import text_env

Stage = Callable[[str, str], TextEnv]  # (kind of the episodes, name of their environment) -> the environment
MOST_PROGRAMS = 400  # executed again for a page
FAILED = 8  # failed replays, after which no more are tried


def stage(run: RunFolder | None) -> Stage:
    """Return a factory of an episode's environment.

    The environment is made by the run's config, else by its name with defaults.

    The factory raises PalaverError if there is no such environment, or its tasks are gone.
    """

    @functools.cache
    def make_env(kind: str, name: str) -> TextEnv:
        if run is not None and run.config is not None:
            env = run.config.env
            return text_env(env.id, env.keywords(None if kind == "train" else run.config.eval.tasks))
        return text_env(name, {})

    return make_env


def add_pictures(album: Album, stage: Stage, max_frames: int) -> list[str]:
    """Add at most `max_frames` frames; return reasons for missing ones.

    Frames of the last and the first step have priority.
    """
    cameras: dict[tuple[str, str], FrameRenderer] = {}
    for entry, episode in _by_turns(album):
        if max_frames <= 0 or sum(len(camera.notes) for camera in cameras.values()) >= FAILED:
            break
        key = (entry["kind"], episode.env)
        if key not in cameras:
            cameras[key] = _camera(stage, *key)
        cameras[key].left = max_frames
        film = cameras[key].film(episode)
        max_frames = cameras[key].left
        for turn, address in film.frames if film else ():
            entry["turns"][turn - 1]["picture"] = address
    return _few(note for camera in cameras.values() for note in camera.notes)


def add_verdicts(album: Album, stage: Stage) -> list[str]:
    """Rerun the programs of the first episodes of every step; return reasons for those not run."""
    notes: list[str] = []
    left, failed = MOST_PROGRAMS, 0
    for entry, episode in _by_turns(album):
        if left < len(episode.turns):
            notes.append(f"tests were run for {MOST_PROGRAMS} programs, not for the others")
            break
        try:
            programs = verdicts(stage(entry["kind"], episode.env), episode)
        except PalaverError as error:
            notes.append(f"tests not run: {one_line(error)}")
            failed += 1
            if failed == FAILED:
                break
            continue
        left -= len(programs)
        for turn, program in zip(entry["turns"], programs, strict=True):
            turn["program"] = program | {"source": album.text(program["source"])}
    return _few(notes)


def _by_turns(album: Album) -> list[tuple[dict[str, Any], Episode]]:
    """Entries of the page and their episodes: evaluations, then training.

    In either, the last step comes before the first and both before the others, which are ordered line by line.
    """
    steps = sorted({episode["step"] or 0 for episode in album.episodes})
    rank = {step: order for order, step in enumerate([steps[-1], steps[0], *steps[1:-1]] if steps else [])}

    def key(pair: tuple[dict[str, Any], Episode]) -> tuple[bool, bool, int, int]:
        entry, order = pair[0], rank[pair[0]["step"] or 0]
        return entry["kind"] == "train", order > 1, entry["line"], order

    return sorted(zip(album.episodes, album.records, strict=True), key=key)


def _camera(stage: Stage, kind: str, name: str) -> FrameRenderer:
    try:
        return FrameRenderer(stage(kind, name)) if drawable(name) else FrameRenderer()
    except PalaverError as error:
        return FrameRenderer(notes=[f"no pictures: {one_line(error)}"])


def _few(notes: Iterable[str], max_notes: int = 4) -> list[str]:
    """Return the first notes without duplicates, and the number of the others."""
    counted = list(Counter(notes))
    ellipsis = [f"and {len(counted) - max_notes} more notes like these"] if len(counted) > max_notes else []
    return counted[:max_notes] + ellipsis


TESTS = 40  # of a program, maximum listed
SHOWN = 400  # characters of a test and of its result


def verdicts(env: TextEnv, episode: Episode) -> list[dict[str, Any]]:
    """Return each turn's program, the sandbox's verdict, its tests as (test, verdict, message).

    Args:
        env: as it was when the episode was played.
        episode: as saved.

    Raises:
        PalaverError: the environment has no programs or no such task, or no sandbox is possible on this machine.
    """
    if not isinstance(env, PairEnv) or episode.env != env.metadata["name"]:
        raise PalaverError(f"{episode.env} has no programs to run; leave --tests out")
    problem = env.problems.get(episode.task)
    if problem is None:
        raise PalaverError(f"the environment has no task {episode.task!r} any more")
    programs = []
    for turn in episode.turns:
        readings = {
            agent: answers.read(as_heard(completion.text, env.max_length)[0])
            for agent, completion in turn.completions.items()
        }
        aux, main = (readings.get(role) or readings.get(SOLO, answers.read("")) for role in (AUX, MAIN))
        program = join(problem.preamble, aux, main, problem.entry_point)
        entry: dict[str, Any] = {"source": clean(program.source), "verdict": "not run", "tests": []}
        if program.main is not None and not program.fault:
            report = run(problem, program.source, env.limits)
            listed = [
                [one_line(test_result.test, SHOWN), test_result.verdict, one_line(test_result.message, SHOWN)]
                for test_result in report.results[:TESTS]
            ]
            entry |= {"verdict": report.verdict, "tests": listed, "more": len(report.results) - len(listed)}
        programs.append(entry | {"fault": one_line(program.fault, SHOWN)})
    return programs
