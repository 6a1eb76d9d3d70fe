"""Run a curriculum: attempts in sequence, each with playing, training and rating.

The state is derived from finished work alone: battles and games are lines in their files, the training has its own
checkpoints, and the verdict of an attempt is written last and atomically. So there is no second record to disagree.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from palaver.core import ConfigError, TaskError
from palaver.trainers.curriculum import battles, gates
from palaver.trainers.curriculum import state as states
from palaver.trainers.curriculum.backend import Backend, Tick, no_report
from palaver.trainers.curriculum.battles import BattleOrder
from palaver.trainers.curriculum.config import FILE, PREVIOUS, Curriculum, Stage, load
from palaver.trainers.curriculum.state import (
    BATTLES,
    NET,
    RATING,
    STAGES,
    GateCondition,
    StageAttempt,
    State,
    attempt_folder,
    label,
)
from palaver.trainers.matches.results import GameResult
from palaver.trainers.matches.standings import Standings, standings
from palaver.trainers.run.boards import WeightsAndBiases
from palaver.trainers.run.files import METRICS
from palaver.trainers.run.logging import flatten, read_metrics
from palaver.utils.config import dump
from palaver.utils.run_folder import locked, replace_text

SENT = "wandb_told"  # number of lines sent to W&B


def lines(
    folder: Path, verdicts: Sequence[StageAttempt], running: tuple[str, int] | None = None
) -> list[dict[str, Any]]:
    """Metrics of the attempts in order on one axis of steps, each followed by its ratings.

    Args:
        folder: of the curriculum.
        verdicts: of the attempts that have ended, in order.
        running: stage and number of the current attempt.
    """
    entries: list[dict[str, Any]] = []
    past = 0
    for verdict in verdicts:
        entries += _attempt_lines(folder, verdict.stage, verdict.attempt, past)
        past += verdict.steps
        if verdict.places:
            elo = {f"elo/{rating.teamset}/{rating.player}": rating.elo for rating in verdict.places}
            about = {"stage": verdict.stage, "attempt": verdict.attempt, "passed": verdict.passed}
            entries.append({"kind": "rating", "step": past, **about, **elo})
    return entries + (_attempt_lines(folder, *running, past) if running else [])


def _attempt_lines(folder: Path, stage: str, attempt: int, past: int) -> list[dict[str, Any]]:
    about = {"stage": stage, "attempt": attempt}
    return [
        {"kind": "train", **line, "step": past + int(line["step"]), **about}
        for line in read_metrics(attempt_folder(folder, stage, attempt) / NET / METRICS)
    ]


class MergedMetrics:
    """Writer of the merged metrics.

    Lines are sent to W&B once; after a kill between sending and recording it, those of one phase are sent twice, at the
    same steps.
    """

    def __init__(self, folder: Path, spec: Curriculum) -> None:
        self.folder = folder
        config = spec.model_dump(mode="json")
        online = spec.wandb != "disabled"
        self._board = WeightsAndBiases(folder, spec.wandb, spec.project, config) if online else None

    def write(self, verdicts: Sequence[StageAttempt], running: tuple[str, int] | None = None) -> None:
        """Rewrite the file, and send the new lines to W&B."""
        entries = lines(self.folder, verdicts, running)
        replace_text(self.folder / METRICS, "".join(json.dumps(line) + "\n" for line in entries))
        if self._board is None:
            return
        count_path = self.folder / SENT
        known = int(count_path.read_text(encoding="utf-8")) if count_path.is_file() else 0
        for line in entries[known:]:
            values = flatten(line, f"{line['stage']}/" if line["kind"] == "rating" else "")
            self._board.scalars(values, int(line["step"]))
        replace_text(count_path, str(len(entries)))

    def close(self) -> None:
        """Finish the W&B run."""
        if self._board is not None:
            self._board.close()


PLAYED = "played.txt"  # battles of an attempt, once all have been tried
FREE = ("jobs", "parallel", "wandb", "project")  # keys that change no result


@dataclass(frozen=True)
class CurriculumProgress:
    """Progress callbacks: start of a phase, its progress and total, and every verdict.

    A verdict comes with the state after it.
    """

    phase: Callable[[str], None] = no_report
    tick: Tick = no_report
    verdict: Callable[[StageAttempt, State], None] = no_report


@dataclass(frozen=True)
class CurriculumRun:
    """Context of one call of `run`."""

    state: State
    backend: Backend
    progress: CurriculumProgress
    rated: bool


def run(
    spec: Curriculum,
    folder: Path,
    backend: Backend,
    progress: CurriculumProgress | None = None,
    *,
    store: Path | None = None,
    rated: bool = True,
) -> State:
    """Run the unfinished part of a curriculum; returns the final state.

    Args:
        spec: the curriculum.
        folder: of `curriculum.yaml`, `metrics.jsonl`, the folders of the attempts and of the arena.
        backend: backend that plays and trains.
        progress: progress callbacks.
        store: folder of the battles; None for one within `folder`.
        rated: if False there are no ratings and every attempt passes, as in an ablation.

    Raises:
        ConfigError: the folder holds another curriculum, or is in use by another process.
        PalaverError: raised by playing or training.
    """
    folder = folder.resolve()
    with locked(folder):
        settle(spec, folder)
        replace_text(folder / FILE, dump(spec))
        state = states.read(spec, folder, store or folder / BATTLES)
        work = CurriculumRun(state, backend, progress or CurriculumProgress(), rated)
        with closing(MergedMetrics(folder, spec)) as curve:
            curve.write(state.verdicts)
            while coming := state.next():
                verdict = _attempt(work, *coming, curve)
                state.ended(verdict)
                curve.write(state.verdicts)
                work.progress.verdict(verdict, state)
    return state


def settle(spec: Curriculum, folder: Path) -> None:
    """Refuse a folder that holds another curriculum; stages to come may have been changed.

    Raises:
        ConfigError: a stage that has begun has other settings.
    """
    if (folder / FILE).is_file():
        old = load(str(folder))
        mine, theirs = (curriculum.model_dump(exclude={*FREE, "stages"}) for curriculum in (spec, old))
        differs = [key for key, value in mine.items() if theirs[key] != value]
        begun = [stage for stage in old.stages if (folder / STAGES / stage.name).is_dir()]
        differs += [f"stages.{a.name}" for n, a in enumerate(begun) if n >= len(spec.stages) or spec.stages[n] != a]
        if differs:
            raise ConfigError(
                f"{str(folder)!r} holds a curriculum that began with another {differs[0]}; set it back, or choose "
                "another --out"
            )


def _attempt(work: CurriculumRun, stage: Stage, attempt: int, curve: MergedMetrics) -> StageAttempt:
    state = work.state
    folder = attempt_folder(state.folder, stage.name, attempt)
    folder.mkdir(parents=True, exist_ok=True)
    players, order, parent = state.players(stage), state.order(stage, attempt), state.parent(stage)
    began = time.perf_counter()
    work.progress.phase(f"{label(stage.name, attempt)}: battles")
    played = _played(work, order, folder, stage.name)
    playing = time.perf_counter() - began
    verdict = StageAttempt(
        stage=stage.name,
        attempt=attempt,
        student=label(stage.name, attempt),
        net="",
        digest="",
        parent=parent.student if parent else "",
        taught_by=battles.teachers(stage, players),
        battles=order.key,
        shown=battles.imitated_labels(stage, players),
        winners=stage.learn == "winners",
        played=played,
        steps=0,
        decisions=0,
        places=(),
        checks=(),
        passed=True,
        seconds=(0.0, 0.0, 0.0),
    )
    work.progress.phase(f"{verdict.student}: learning")
    learnt = work.backend.train(state.job(stage, verdict), folder / NET, work.progress.tick)
    curve.write(state.verdicts, (stage.name, attempt))
    verdict = replace(
        verdict,
        net=str(learnt.net.relative_to(state.folder)),
        digest=learnt.digest,
        steps=learnt.steps,
        decisions=learnt.decisions,
        seconds=(round(playing, 3), round(learnt.seconds, 3), 0.0),
    )
    if work.rated:
        verdict = _rate(work, stage, verdict)
    verdict.save(folder)
    return verdict


def _played(work: CurriculumRun, order: BattleOrder, folder: Path, stage: str) -> int:
    """Number of valid battles of an attempt, fixed once all have been tried.

    A failed one is not played later, as the data of a training that has begun must not change.
    """
    count_path = folder / PLAYED
    if not count_path.is_file():
        played = work.backend.play(order, work.state.store / order.key, True, work.progress.tick)
        if not played:
            raise TaskError(
                f"no battle of the stage {stage!r} could be played to its end, so there is nothing to learn"
            )
        replace_text(count_path, f"{len(played)}\n")
    return int(count_path.read_text(encoding="utf-8"))


def _rate(work: CurriculumRun, stage: Stage, verdict: StageAttempt) -> StageAttempt:
    """Return the verdict with ratings and checks."""
    state, began = work.state, time.perf_counter()
    order = state.rating(verdict)
    work.progress.phase(f"{verdict.student}: ratings")
    games = work.backend.play(order, state.folder / RATING, False, work.progress.tick)
    standings = table(games, order.players, state.spec)
    checks = check(state, stage, verdict.student, standings, games)
    return replace(
        verdict,
        places=states.places(standings),
        checks=tuple(checks),
        passed=all(condition.passed for condition in checks),
        seconds=(*verdict.seconds[:2], round(time.perf_counter() - began, 3)),
    )


def table(games: Sequence[GameResult], players: Iterable[str], spec: Curriculum) -> Standings:
    """Rate these players from all games between them, sorted, on the team sets in their order.

    Raises:
        ConfigError: no games, or some players cannot be compared.
    """
    order = {teams: n for n, teams in enumerate(spec.ratings.sets)}
    ranked = sorted(games, key=lambda played: (order[played.game.teamset], *played.game[1:]))
    return standings(ranked, list(players), spec.ratings.anchor, at=spec.ratings.at)


def check(
    state: State, stage: Stage, student: str, standings: Standings, games: Sequence[GameResult]
) -> list[GateCondition]:
    """Check the conditions of the stage's gate and guard."""
    labels = {name: verdict.student for name, verdict in state.promoted.items()}
    before = state.before(stage)
    if before:
        labels[PREVIOUS] = before.student
    checks = gates.passes(stage.gate, standings, student, labels)
    if stage.guard and before:
        checks.append(gates.guard_condition(stage.guard, games, student, before.student, state.spec.ratings.opponents))
    return checks
