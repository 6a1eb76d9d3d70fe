"""State of a curriculum, derived from the verdicts of its attempts, and its next attempt."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from pydantic import TypeAdapter

from palaver.core import CheckpointError, stable_seed
from palaver.text import one_line
from palaver.trainers.curriculum import battles
from palaver.trainers.curriculum.backend import BattleData, TrainingJob
from palaver.trainers.curriculum.battles import BattleOrder, StagePlayer
from palaver.trainers.curriculum.config import COACH, FRESH, PREVIOUS, STUDENT, Curriculum, Stage
from palaver.trainers.matches.standings import Standings
from palaver.utils.run_folder import replace_text

VERDICT = "verdict.json"
STAGES, BATTLES, RATING, NET = "stages", "battles", "rating", "net"


@dataclass(frozen=True)
class GateCondition:
    """One condition of a gate: threshold, value with its 95 % interval, and result.

    For a difference of ratings the ends are the minimum and the maximum that the two intervals allow.
    """

    asks: str
    found: float
    low: float | None
    high: float | None
    passed: bool


@dataclass(frozen=True)
class PlayerRating:
    """A player's rating on a team set, as `palaver.utils.ratings.Rating` explains it."""

    teamset: str
    player: str
    elo: float
    low: float
    high: float
    bounded: bool


@dataclass(frozen=True)
class StageAttempt:
    """An attempt at a stage.

    Attributes:
        stage: its name.
        attempt: from 1.
        student: label of the resulting student.
        net: folder of the student's network, within the curriculum's.
        digest: of that network's weights.
        parent: label of the student that it was initialised from, "" for a fresh one.
        taught_by: labels of its teachers.
        battles: name of the folder of its battles, in the store of battles.
        shown: labels whose decisions in it are imitated; empty for all.
        winners: imitate winners only.
        played: battles that count.
        steps: of the optimiser.
        decisions: seen in these, with repetitions.
        places: ratings of all students so far and of the opponents, by team set.
        checks: of gate and guard.
        passed: True if all passed.
        seconds: of playing, of training and of rating, without those of killed processes.
    """

    stage: str
    attempt: int
    student: str
    net: str
    digest: str
    parent: str
    taught_by: tuple[str, ...]
    battles: str
    shown: tuple[str, ...]
    winners: bool
    played: int
    steps: int
    decisions: int
    places: tuple[PlayerRating, ...]
    checks: tuple[GateCondition, ...]
    passed: bool
    seconds: tuple[float, float, float]

    def save(self, folder: Path) -> None:
        """Write it atomically."""
        replace_text(folder / VERDICT, json.dumps(asdict(self), indent=1) + "\n")

    def elo(self, player: str, teamset: str) -> PlayerRating | None:
        """A player's rating on a team set, None if it has none."""
        return next((rating for rating in self.places if (rating.player, rating.teamset) == (player, teamset)), None)


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
        stage = next((stage for stage in self.spec.stages if stage.name not in self.promoted), None)
        return None if self.stopped or stage is None else (stage, len(self.attempts(stage.name)) + 1)

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

    def player(self, verdict: StageAttempt, temperature: float = 0.0) -> StagePlayer:
        """The student of an attempt as a player of the arena.

        One with a temperature has a name of its own, as the one without may play in the same stage.
        """
        name = f"net:{self.folder / verdict.net}"
        if not temperature:
            return StagePlayer(verdict.student, name, verdict.digest)
        heat = f"{temperature:g}"
        return StagePlayer(f"{verdict.student}~{heat}", f"{name}@{heat}", f"{verdict.digest}~{heat}")

    def players(self, stage: Stage) -> dict[str, StagePlayer]:
        """Map the names in the stage of the next attempt to players."""
        players = {
            name: self.player(self.promoted[name]) if name in self.promoted else StagePlayer(name, name, name)
            for name in stage.names
        }
        if stage.coach:
            players[COACH] = players[stage.coach]
        tried = self.attempts(stage.name)
        now = tried[-1] if tried else self.before(stage)
        if now is not None:
            players[STUDENT] = self.player(now, stage.temperature)
        return players

    def order(self, stage: Stage, attempt: int) -> BattleOrder:
        """The battles of the next attempt."""
        return battles.order(stage, self.players(stage), stable_seed(self.spec.seed, "battles", stage.name, attempt))

    def job(self, stage: Stage, verdict: StageAttempt) -> TrainingJob:
        """The training of the next attempt, given its verdict so far, with its battles."""
        mix = self.spec.mix_of(stage)
        new, old, human = mix.parts()
        mine = [*self.attempts(stage.name), verdict]
        earlier = [attempt for attempt in self.verdicts if attempt.stage != stage.name]
        people = [BattleData(Path(name), human / len(mix.human)) for name in mix.human if human]
        start = self.parent(stage)
        return TrainingJob(
            stage,
            sources=(*self._sources(mine, new), *self._sources(earlier, old), *people),
            stage_sources=self._sources(mine, 1.0),
            start=self.folder / start.net if start else None,
            seed=stable_seed(self.spec.seed, "learn", stage.name, verdict.attempt),
        )

    def _sources(self, verdicts: Sequence[StageAttempt], share: float) -> tuple[BattleData, ...]:
        """Battles of attempts as training data.

        Their weights are by their number and add up to `share`; there are none for a share of 0.
        """
        total = sum(verdict.played for verdict in verdicts)
        return tuple(
            BattleData(
                self.store / verdict.battles,
                share * verdict.played / total,
                frozenset(verdict.shown) or None,
                verdict.winners,
            )
            for verdict in verdicts
            if share and verdict.played
        )

    def rating(self, verdict: StageAttempt) -> BattleOrder:
        """Games of the arena at the end of an attempt.

        This student and all earlier ones play against each other and the opponents, on the ratings' team sets.
        All games of earlier attempts are included.
        """
        students = map(self.player, (*self.verdicts, verdict))
        named = {student.label: student.player for student in students}
        return battles.field(self.spec.ratings, named, self.spec.seed)


def read(spec: Curriculum, folder: Path, store: Path) -> State:
    """Read the state from the verdicts in a folder.

    Raises:
        CheckpointError: one of them has another format.
    """
    state = State(spec, folder, store)
    while coming := state.next():
        path = attempt_folder(folder, coming[0].name, coming[1]) / VERDICT
        if not path.is_file():  # it has not ended
            break
        try:
            verdict = TypeAdapter(StageAttempt).validate_python(json.loads(path.read_text(encoding="utf-8")))
        except (OSError, ValueError) as error:
            raise CheckpointError(f"{str(path)!r} is no verdict of a curriculum: {one_line(error)}") from error
        state.ended(verdict)
    return state


def label(stage: str, attempt: int) -> str:
    """Label of a student: its stage, and from the second attempt on its number.

    >>> label("first", 1), label("first", 2)
    ('first', 'first.2')
    """
    return stage if attempt == 1 else f"{stage}.{attempt}"


def attempt_folder(folder: Path, stage: str, attempt: int) -> Path:
    """Folder of an attempt."""
    return folder / STAGES / stage / str(attempt)


def places(standings: Standings) -> tuple[PlayerRating, ...]:
    """The ratings of every team set, best first."""
    return tuple(
        PlayerRating(
            table.teamset,
            rating.player,
            round(rating.elo, 3),
            round(rating.low, 3),
            round(rating.high, 3),
            rating.bounded,
        )
        for table in standings.tables
        for rating in table.ratings
    )
