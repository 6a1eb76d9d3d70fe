"""Run a curriculum: attempts in sequence, each with playing, training and rating.

The state is derived from finished work alone: battles and games are lines in their files, the training has its own
checkpoints, and the verdict of an attempt is written last and atomically. So there is no second record to disagree.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from palaver.core import ConfigError, TaskError
from palaver.trainers.curriculum import battles, gates, records
from palaver.trainers.curriculum import state as states
from palaver.trainers.curriculum.backend import Backend, BattleData, Tick, TrainingResult
from palaver.trainers.curriculum.battles import BattleOrder
from palaver.trainers.curriculum.config import PREVIOUS, Curriculum, Stage
from palaver.trainers.curriculum.loading import FILE, load
from palaver.trainers.curriculum.merged_metrics import MergedMetrics
from palaver.trainers.curriculum.records import (
    BATTLES,
    NET,
    RATING,
    GateCondition,
    StageAttempt,
    attempt_folder,
    label,
)
from palaver.trainers.curriculum.state import State
from palaver.trainers.matches.results import GameResult
from palaver.trainers.matches.standings import Standings, standings
from palaver.utils.config import dump
from palaver.utils.run_folder import locked, replace_text

PLAYED = "played.txt"  # battles of an attempt, once all have been tried
FREE = ("jobs", "parallel", "wandb", "project")  # keys that change no result


def _nothing(*_: object) -> None:
    return


@dataclass(frozen=True)
class CurriculumProgress:
    """Progress callbacks: start of a phase, its progress and total, and every verdict.

    A verdict comes with the state after it.
    """

    phase: Callable[[str], None] = _nothing
    tick: Tick = _nothing
    verdict: Callable[[StageAttempt, State], None] = _nothing


@dataclass(frozen=True)
class CurriculumRun:
    """Context of one call of `run`."""

    state: State
    backend: Backend
    progress: CurriculumProgress
    rated: bool
    named: dict[str, str] = field(default_factory=dict)

    def know(self, verdict: StageAttempt) -> None:
        """Register the verdict's student as a player of the arena."""
        self.named[verdict.student] = self.backend.player(self.state.folder / verdict.net)


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
        work = CurriculumRun(
            states.read(spec, folder, store or folder / BATTLES), backend, progress or CurriculumProgress(), rated
        )
        return _go(work)


def _go(work: CurriculumRun) -> State:
    state = work.state
    for verdict in state.verdicts:
        work.know(verdict)
    curve = MergedMetrics(state.folder, state.spec)
    try:
        curve.write(state.verdicts)
        while coming := state.next():
            verdict = _attempt(work, *coming, curve)
            work.know(verdict)
            state.ended(verdict)
            curve.write(state.verdicts)
            work.progress.verdict(verdict, state)
    finally:
        curve.close()
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
        begun = [stage for stage in old.stages if (folder / records.STAGES / stage.name).is_dir()]
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
    players = state.players(stage, work.named)
    order = states.order(state, stage, attempt, work.named)
    began = time.perf_counter()
    work.progress.phase(f"{label(stage.name, attempt)}: battles")
    played = _played(work, order, folder, stage.name)
    playing = time.perf_counter() - began
    labels = battles.imitated_labels(stage, players)
    source = BattleData(state.store / order.key, 1.0, frozenset(labels) or None, stage.learn == "winners")
    work.progress.phase(f"{label(stage.name, attempt)}: learning")
    parent = state.parent(stage)
    learnt = work.backend.train(state.job(stage, attempt, source, played), folder / NET, work.progress.tick)
    curve.write(state.verdicts, (stage.name, attempt))
    verdict = StageAttempt(
        stage.name,
        attempt,
        label(stage.name, attempt),
        str(learnt.net.relative_to(state.folder)),
        learnt.digest,
        parent.student if parent else "",
        battles.teachers(stage, players),
        order.key,
        labels,
        stage.learn == "winners",
        played,
        learnt.steps,
        learnt.decisions,
    )
    verdict = _rate(work, stage, verdict, learnt, playing)
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


def _rate(
    work: CurriculumRun, stage: Stage, verdict: StageAttempt, learnt: TrainingResult, playing: float
) -> StageAttempt:
    """Return the verdict with ratings and checks, if they are enabled."""
    spent = (_round(playing), _round(learnt.seconds))
    if not work.rated:
        return replace(verdict, seconds=(*spent, 0.0))
    state, began = work.state, time.perf_counter()
    named = work.named | {verdict.student: work.backend.player(learnt.net)}
    order = state.rating(verdict.student, named)
    work.progress.phase(f"{verdict.student}: ratings")
    games = work.backend.play(order, state.folder / RATING, False, work.progress.tick)
    standings = table(games, order.players, state.spec)
    checks = check(state, stage, verdict.student, standings, games)
    return replace(
        verdict,
        places=records.places(standings),
        checks=tuple(checks),
        passed=all(condition.passed for condition in checks),
        seconds=(*spent, _round(time.perf_counter() - began)),
    )


def _round(seconds: float) -> float:
    return round(seconds, 3)


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
