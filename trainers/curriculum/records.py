"""Verdicts of finished attempts, written atomically; all other state is derived from them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from palaver.core import CheckpointError
from palaver.text import one_line
from palaver.trainers.matches.standings import Standings
from palaver.utils.ratings import Rating
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
    places: tuple[PlayerRating, ...] = ()
    checks: tuple[GateCondition, ...] = ()
    passed: bool = True
    seconds: tuple[float, float, float] = (0.0, 0.0, 0.0)

    def save(self, folder: Path) -> None:
        """Write it atomically."""
        replace_text(folder / VERDICT, json.dumps(asdict(self), indent=1) + "\n")

    def elo(self, player: str, teamset: str) -> PlayerRating | None:
        """A player's rating on a team set, None if it has none."""
        return next((rating for rating in self.places if (rating.player, rating.teamset) == (player, teamset)), None)


def label(stage: str, attempt: int) -> str:
    """Label of a student: its stage, and from the second attempt on its number.

    >>> label("first", 1), label("first", 2)
    ('first', 'first.2')
    """
    return stage if attempt == 1 else f"{stage}.{attempt}"


def attempt_folder(folder: Path, stage: str, attempt: int) -> Path:
    """Folder of an attempt."""
    return folder / STAGES / stage / str(attempt)


def read(folder: Path, stage: str, attempt: int) -> StageAttempt | None:
    """Read the verdict of an attempt, None if it has not ended.

    Raises:
        CheckpointError: the file has another format.
    """
    path = attempt_folder(folder, stage, attempt) / VERDICT
    if not path.is_file():
        return None
    try:
        values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        values["places"] = tuple(PlayerRating(**entry) for entry in values["places"])
        values["checks"] = tuple(GateCondition(**entry) for entry in values["checks"])
        for name in ("taught_by", "shown", "seconds"):
            values[name] = tuple(values[name])
        return StageAttempt(**values)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{str(path)!r} is no verdict of a curriculum: {one_line(error)}") from error


def places(standings: Standings) -> tuple[PlayerRating, ...]:
    """The ratings of every team set, best first."""
    return tuple(_place_of(table.teamset, rating) for table in standings.tables for rating in table.ratings)


def _place_of(teamset: str, rating: Rating) -> PlayerRating:
    elo, low, high = (round(end, 3) for end in (rating.elo, rating.low, rating.high))
    return PlayerRating(teamset, rating.player, elo, low, high, rating.bounded)


def timeless(verdicts: Sequence[StageAttempt]) -> list[StageAttempt]:
    """Return the verdicts without seconds, which alone may differ between repetitions of a run."""
    return [replace(verdict, seconds=(0.0, 0.0, 0.0)) for verdict in verdicts]
