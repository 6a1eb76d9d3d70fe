"""Data of a curriculum's report, read from its folder."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from palaver.core import CheckpointError
from palaver.text import one_line
from palaver.trainers.curriculum import state as states
from palaver.trainers.curriculum.config import FILE, Curriculum, load
from palaver.trainers.curriculum.run import lines, table
from palaver.trainers.curriculum.state import BATTLES, RATING, PlayerRating, StageAttempt, State
from palaver.trainers.matches.results import GAMES, read_games
from palaver.trainers.matches.standings import Standings
from palaver.trainers.run.files import METRICS
from palaver.trainers.run.logging import read_metrics
from palaver.utils.run_folder import replace_text

RESULTS = "curriculum.json"


@dataclass(frozen=True)
class Member:
    """Member of the family tree: a student, or a player that has taught one.

    Attributes:
        label: of the member.
        parent: label of the student that it was initialised from; "" for a fresh one, and for players.
        taught_by: labels of its teachers; empty for players.
        places: its ratings in the last arena, by team set; empty if unrated.
        student: True for a student.
        promoted: True if promoted to the next stage.
    """

    label: str
    parent: str
    taught_by: tuple[str, ...]
    places: Mapping[str, PlayerRating]
    student: bool
    promoted: bool

    def elo(self, teamset: str) -> float | None:
        """Its rating on a team set."""
        rating = self.places.get(teamset)
        return None if rating is None else rating.elo


@dataclass(frozen=True)
class CurriculumReport:
    """Data of a curriculum's report.

    Attributes:
        spec: the curriculum.
        state: its current state.
        lines: of the metrics, all stages on one axis.
        standings: the arena of all students and opponents; None before the first rating.
        provenance: of the page.
    """

    spec: Curriculum
    state: State
    lines: Sequence[Mapping[str, Any]]
    standings: Standings | None
    provenance: Mapping[str, Any]

    @property
    def verdicts(self) -> Sequence[StageAttempt]:
        """Of the attempts, in order."""
        return self.state.verdicts

    @property
    def sets(self) -> tuple[str, ...]:
        """Team sets on which there are ratings, the one trained on first."""
        return () if self.standings is None else tuple(table.teamset for table in self.standings.tables)

    @property
    def minutes(self) -> list[float]:
        """Of playing, learning and rating."""
        return [sum(verdict.seconds[n] for verdict in self.verdicts) / 60 for n in range(3)]

    def family(self) -> list[Member]:
        """Teachers that are no students, then the students in order."""
        places: dict[str, dict[str, PlayerRating]] = {}
        for rating in self.verdicts[-1].places if self.verdicts else ():
            places.setdefault(rating.player, {})[rating.teamset] = rating
        promoted = {verdict.student for verdict in self.state.promoted.values()}
        students = {verdict.student for verdict in self.verdicts}
        teachers = dict.fromkeys(
            name for attempt in self.verdicts for name in attempt.taught_by if name not in students
        )
        return [Member(name, "", (), places.get(name, {}), False, False) for name in teachers] + [
            Member(
                verdict.student,
                verdict.parent,
                verdict.taught_by,
                places.get(verdict.student, {}),
                True,
                verdict.student in promoted,
            )
            for verdict in self.verdicts
        ]

    def untaught(self, verdict: StageAttempt) -> list[str]:
        """Opponents of the ratings that were teachers neither of a student nor of its ancestors."""
        line, seen = verdict, set(verdict.taught_by)
        by_label = {row.student: row for row in self.verdicts}
        while line.parent:
            line = by_label[line.parent]
            seen |= set(line.taught_by)
        return [name for name in self.spec.ratings.opponents if name not in seen]

    def save(self, folder: Path) -> Path:
        """Write `curriculum.json` and return its path."""
        values = {
            "curriculum": self.spec.model_dump(mode="json"),
            "over": self.state.next() is None,
            "stopped": self.state.stopped,
            "promoted": {stage: verdict.student for stage, verdict in self.state.promoted.items()},
            "family": [asdict(member) for member in self.family()],
            "attempts": [asdict(verdict) for verdict in self.verdicts],
            "arena": self.standings.to_dict() if self.standings else None,
            "minutes": dict(zip(("playing", "learning", "rating"), self.minutes, strict=True)),
            "provenance": dict(self.provenance),
        }
        path = folder / RESULTS
        replace_text(path, json.dumps(values, indent=1) + "\n")
        return path


def read(folder: Path, provenance: Mapping[str, Any]) -> CurriculumReport:
    """Read the report data of a folder; of one kept without its attempts, from its last report.

    Raises:
        CheckpointError: it holds no curriculum, or one that is damaged.
        ConfigError: its rated games are missing.
    """
    folder = folder.resolve()
    if not (folder / FILE).is_file():
        raise CheckpointError(f"there is no curriculum in {str(folder)!r}: it has no {FILE}")
    spec = load(str(folder))
    state = states.read(spec, folder, folder / BATTLES)
    if (last := _last(spec, folder, provenance)) and len(last.verdicts) > len(state.verdicts):
        return last
    players = [*spec.ratings.opponents, *(verdict.student for verdict in state.verdicts)]
    wanted = set(players)
    games = [
        played for played in read_games(folder / RATING / GAMES) if {played.game.first, played.game.second} <= wanted
    ]
    rated = bool(state.verdicts) and bool(state.verdicts[-1].places)
    standings = table(games, players, spec) if rated else None
    return CurriculumReport(spec, state, lines(folder, state.verdicts), standings, provenance)


def _last(spec: Curriculum, folder: Path, provenance: Mapping[str, Any]) -> CurriculumReport | None:
    """Data of the last report and the merged metrics; None before the first."""
    path = folder / RESULTS
    if not path.is_file():
        return None
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        state = State(spec, folder, folder / BATTLES)
        for verdict in TypeAdapter(list[StageAttempt]).validate_python(values["attempts"]):
            state.ended(verdict)
        standings = Standings.from_dict(values["arena"]) if values["arena"] else None
    except (ValueError, KeyError, TypeError, StopIteration) as error:
        raise CheckpointError(f"{str(path)!r} holds no report of a curriculum: {one_line(error)}") from error
    return CurriculumReport(spec, state, read_metrics(folder / METRICS), standings, provenance)
