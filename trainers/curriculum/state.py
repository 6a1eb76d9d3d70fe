"""State of a curriculum, derived from its verdicts, and its next attempt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from palaver.core import stable_seed
from palaver.trainers.curriculum import battles, records
from palaver.trainers.curriculum.backend import BattleData, TrainingJob
from palaver.trainers.curriculum.battles import BattleOrder, StagePlayer
from palaver.trainers.curriculum.config import COACH, FRESH, PREVIOUS, STUDENT, Curriculum, Stage
from palaver.trainers.curriculum.records import StageAttempt


@dataclass
class State:
    """State of a curriculum.

    Attributes:
        spec: the curriculum.
        folder: of it.
        store: folder of the battles.
        verdicts: of the attempts that have ended, in order.
        promoted: finished stage -> the attempt whose student was promoted.
        stopped: the stage whose gate no student passed, if that ends the curriculum.
    """

    spec: Curriculum
    folder: Path
    store: Path
    verdicts: list[StageAttempt] = field(default_factory=list)
    promoted: dict[str, StageAttempt] = field(default_factory=dict)
    stopped: str = ""

    def attempts(self, stage: str) -> list[StageAttempt]:
        """Those at a stage, in order."""
        return [verdict for verdict in self.verdicts if verdict.stage == stage]

    def next(self) -> tuple[Stage, int] | None:
        """The next stage and attempt; None if the curriculum is over."""
        if self.stopped:
            return None
        for stage in self.spec.stages:
            if stage.name not in self.promoted:
                return stage, len(self.attempts(stage.name)) + 1
        return None

    def ended(self, verdict: StageAttempt) -> None:
        """Update the state by a finished attempt: promote, repeat or stop."""
        self.verdicts.append(verdict)
        stage = next(candidate for candidate in self.spec.stages if candidate.name == verdict.stage)
        if verdict.passed:
            self.promoted[stage.name] = verdict
        elif verdict.attempt > stage.repeats:
            if stage.otherwise == "stop":
                self.stopped = stage.name
            else:
                self.promoted[stage.name] = self._best(stage.name)

    def _best(self, stage: str) -> StageAttempt:
        """The attempt with the highest rated student in the last arena, in which all of them played."""
        attempts = self.attempts(stage)
        last = attempts[-1]
        ratings = {rating.player: rating.elo for rating in last.places if rating.teamset == last.places[0].teamset}
        return max(attempts, key=lambda attempt: (ratings.get(attempt.student, 0.0), attempt.attempt))

    def before(self, stage: Stage) -> StageAttempt | None:
        """The promoted attempt of the previous stage."""
        names = [listed.name for listed in self.spec.stages]
        at = names.index(stage.name)
        return self.promoted[names[at - 1]] if at else None

    def parent(self, stage: Stage) -> StageAttempt | None:
        """The attempt whose network initialises the next one; None for a fresh one."""
        tried = self.attempts(stage.name)
        if stage.start == FRESH:
            return None
        if tried:
            return tried[-1]
        return self.before(stage) if stage.start == PREVIOUS else self.promoted[stage.start]

    def players(self, stage: Stage, named: Mapping[str, str]) -> dict[str, StagePlayer]:
        """Map the names in the stage to players.

        Args:
            stage: of the next attempt.
            named: label of a student -> player of the arena.
        """
        players = {name: StagePlayer(name, name, name) for name in stage.names}
        for name in stage.names:
            if name in self.promoted:
                players[name] = _stage_player(self.promoted[name], named)
        if stage.coach:
            players[COACH] = players[stage.coach]
        tried = self.attempts(stage.name)
        now = tried[-1] if tried else self.before(stage)
        if now is not None:
            players[STUDENT] = _drawing(_stage_player(now, named), stage.temperature)
        return players

    def job(self, stage: Stage, attempt: int, battles: BattleData, played: int) -> TrainingJob:
        """Settings of the next attempt's training.

        Args:
            stage: of the attempt.
            attempt: from 1.
            battles: its own battles, with weight 1.
            played: battles in it.
        """
        new, old, human = self.spec.mix_of(stage).parts()
        mine = [(source(verdict, self.store), verdict.played) for verdict in self.attempts(stage.name)] + [
            (battles, played)
        ]
        earlier = [
            (source(verdict, self.store), verdict.played) for verdict in self.verdicts if verdict.stage != stage.name
        ]
        people = [(BattleData(Path(name), 1.0), 1) for name in self.spec.mix_of(stage).human]
        start = self.parent(stage)
        return TrainingJob(
            sources=(*_weighed(mine, new), *_weighed(earlier, old), *_weighed(people, human)),
            stage_sources=_weighed(mine, 1.0),
            start=self.folder / start.net if start else None,
            size=self.spec.size,
            epochs=stage.epochs,
            loss=stage.loss,
            seed=stable_seed(self.spec.seed, "learn", stage.name, attempt),
            device=self.spec.device,
            options=stage.options,
        )

    def rating(self, student: str, named: Mapping[str, str]) -> BattleOrder:
        """Games of the arena at the end of an attempt.

        This student and all earlier ones play against each other and the opponents, on the ratings' team sets.
        All games of earlier attempts are included.
        """
        students = [*(verdict.student for verdict in self.verdicts), student]
        return battles.field(self.spec.ratings, {name: named[name] for name in students}, self.spec.seed)


def _stage_player(verdict: StageAttempt, named: Mapping[str, str]) -> StagePlayer:
    return StagePlayer(verdict.student, named[verdict.student], verdict.digest)


def _drawing(player: StagePlayer, temperature: float) -> StagePlayer:
    """The same network at a temperature, under a name of its own.

    The one without temperature may play in the same stage.
    """
    if not temperature:
        return player
    heat = f"{temperature:g}"
    return StagePlayer(f"{player.label}~{heat}", f"{player.player}@{heat}", f"{player.mark}~{heat}")


def source(verdict: StageAttempt, store: Path) -> BattleData:
    """The recorded battles of an attempt as training data."""
    return BattleData(store / verdict.battles, 1.0, frozenset(verdict.shown) or None, verdict.winners)


def _weighed(sources: list[tuple[BattleData, int]], share: float) -> tuple[BattleData, ...]:
    """The sources with weights in proportion to their battles that add up to `share`.

    Empty if `share` or the number of battles is 0.
    """
    total = sum(played for _, played in sources)
    if not share or not total:
        return ()
    return tuple(
        BattleData(source.folder, share * played / total, source.players, source.winners)
        for source, played in sources
        if played
    )


def read(spec: Curriculum, folder: Path, store: Path) -> State:
    """Read the state from the verdicts in a folder.

    Raises:
        CheckpointError: one of them has another format.
    """
    state = State(spec, folder, store)
    while (coming := state.next()) and (verdict := records.read(folder, coming[0].name, coming[1])):
        state.ended(verdict)
    return state


def order(state: State, stage: Stage, attempt: int, named: Mapping[str, str]) -> BattleOrder:
    """The battles of the next attempt."""
    seed = stable_seed(state.spec.seed, "battles", stage.name, attempt)
    return battles.order(stage, state.players(stage, named), seed)
