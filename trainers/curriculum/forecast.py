"""Forecast of a curriculum's cost from a short rehearsal, which also finds mistakes early."""

from __future__ import annotations

import tempfile
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median

from palaver.core import TaskError
from palaver.trainers.curriculum import battles
from palaver.trainers.curriculum.backend import Backend, BattleData, TrainingJob, no_report
from palaver.trainers.curriculum.battles import MIRROR, BattleOrder
from palaver.trainers.curriculum.config import COACH, STUDENT, Curriculum, Stage
from palaver.trainers.matches.config import GameSpec
from palaver.trainers.matches.recording import Advice
from palaver.trainers.matches.results import GameResult, PlayerStats
from palaver.utils.machine import usable_cores
from palaver.utils.tables import Table

STUDENT_LABEL = "a-student"
MATCHES = 3  # of every player
WARM = 30  # before them, and of a student: a simulator's first thirty battles are several times slower than all others


@dataclass(frozen=True)
class Forecast:
    """Measurements of a rehearsal, at the machine's load at that time.

    Attributes:
        decisions: of one side of a battle, mean.
        ms: player -> milliseconds of a decision; of students under `STUDENT_LABEL`.
        overhead: milliseconds of a battle outside the players.
        asking: coach -> milliseconds of advice on a decision.
        pace: decisions a second that a training sees.
        batch: decisions of a step.
    """

    decisions: float
    ms: Mapping[str, float]
    overhead: float
    asking: Mapping[str, float]
    pace: float
    batch: float

    def playing(self, pairs: Mapping[tuple[str, str], float], jobs: int) -> float:
        """Estimated seconds of the given number of battles of each pairing."""
        student = self.ms[STUDENT_LABEL]  # stands for all players that were not measured
        ms = {pair: self.overhead + self.decisions * sum(self.ms.get(n, student) for n in pair) for pair in pairs}
        return sum(ms[pair] * count for pair, count in pairs.items()) / 1000 / jobs


def rehearse(spec: Curriculum, backend: Backend) -> Forecast:
    """Measure playing and training in a short rehearsal.

    Every player plays the anchor, a student is trained on these matches for one epoch and plays too, also with
    each coach that gives advice.

    Raises:
        PalaverError: raised by playing or training.
    """
    first = spec.stages[0]
    students = {stage.name for stage in spec.stages}
    named = dict.fromkeys([*spec.ratings.opponents, *(name for stage in spec.stages for name in stage.names)])
    players = [name for name in named if name not in students and name != spec.ratings.anchor]
    teams = next(iter(first.teams))
    with tempfile.TemporaryDirectory(prefix="palaver-rehearsal-") as temporary:
        folder = Path(temporary)
        mirror = {spec.ratings.anchor + MIRROR: spec.ratings.anchor}
        others = {name: name for name in players}
        games = _matches(spec, mirror, teams, WARM) + _matches(spec, others, teams, MATCHES)
        done = backend.play(_order(spec, mirror | others, games), folder / "games", True, no_report)
        played = [game for game in done if game.game.first in (others or mirror)]
        if not played:
            raise TaskError("no battle of the rehearsal could be played to its end")
        sources = (BattleData(folder / "games", 1.0),)
        job = TrainingJob(first.model_copy(update={"epochs": 1}), sources, sources, None, 0)
        began = time.perf_counter()
        learnt = backend.train(job, folder / "student", no_report)
        pace = learnt.decisions / max(learnt.seconds or time.perf_counter() - began, 1e-9)
        student = {STUDENT_LABEL: f"net:{learnt.net}"}
        alone = _order(spec, student, _matches(spec, student, teams, WARM))
        played += backend.play(alone, folder / "more", False, no_report)
        advised: dict[str, Sequence[GameResult]] = {}
        for n, coach in enumerate(dict.fromkeys(stage.coach for stage in spec.stages if stage.advice)):
            order = replace(alone, advice=Advice(coach, (STUDENT_LABEL,), 1.0))
            advised[coach] = backend.play(order, folder / f"advice-{n}", True, no_report)
    return measured(played, advised, pace, learnt.decisions / learnt.steps)


def _matches(spec: Curriculum, players: Iterable[str], teams: str, count: int) -> tuple[GameSpec, ...]:
    return tuple(
        GameSpec(teams, name, spec.ratings.anchor, match, swapped)
        for match in range(count)
        for name in players
        for swapped in (False, True)
    )


def _order(spec: Curriculum, players: Mapping[str, str], games: tuple[GameSpec, ...]) -> BattleOrder:
    known = {**players, spec.ratings.anchor: spec.ratings.anchor}
    return BattleOrder(known, games, spec.seed, known)


def measured(
    played: Sequence[GameResult], advised: Mapping[str, Sequence[GameResult]], pace: float, batch: float
) -> Forecast:
    """Summarise games by medians, as a process is slow in its first ones.

    Args:
        played: valid games, one or more.
        advised: coach -> such games of a student with advice on all its decisions.
        pace: decisions a second that a training sees.
        batch: decisions of a step.
    """
    shares: dict[str, list[PlayerStats]] = defaultdict(list)
    for game in played:
        shares[game.game.first].append(game.did[0])
        shares[game.game.second].append(game.did[1])
    ms = {name: median(share.ms / max(1, share.decisions) for share in own) for name, own in shares.items()}
    overhead = median(map(_overhead, played))
    asking = {
        coach: median(max(0.0, _overhead(game) - overhead) / max(1, game.did[0].decisions) for game in games)
        for coach, games in advised.items()
        if games
    }
    return Forecast(
        fmean(share.decisions for own in shares.values() for share in own), ms, overhead, asking, pace, batch
    )


def _overhead(played: GameResult) -> float:
    """Milliseconds of a game outside the players."""
    return max(0.0, 1000 * played.seconds - sum(share.ms for share in played.did))


def plan(spec: Curriculum, forecast: Forecast | None) -> Table:
    """Work of a curriculum if every gate is passed at the first attempt; repeats are extra.

    Seconds of playing are a rough estimate from the rehearsal's few battles; loading and starting are not counted.
    """
    jobs = spec.jobs or usable_cores()
    rows, minutes = [], 0.0
    for index, stage in enumerate(spec.stages, start=1):
        rated = _rated(spec, index)
        row = [
            stage.name,
            f"{stage.battles:,}",
            ", ".join(stage.pairs),
            ", ".join(stage.teams),
            f"{sum(rated.values()):,}",
        ]
        if forecast:
            seconds, decisions = _seconds(stage, forecast, rated, jobs)
            minutes += sum(seconds) / 60
            row += [
                f"{decisions:,.0f}",
                f"{decisions / forecast.batch:,.0f}",
                " + ".join(f"{s / 60:.1f}" for s in seconds),
            ]
        rows.append(row)
    head = ["stage", "battles", "pairs", "teams", "rated games"]
    repeats = max(stage.repeats for stage in spec.stages)
    remark = f" A stage whose gate is not passed is repeated, {repeats} times at most." if repeats else ""
    if not forecast:
        return Table("Plan", remark.strip() or "Every stage is tried once.", head, rows)
    note = f"About {minutes:.0f} minutes in {jobs} processes, judged by a rehearsal."
    return Table("Plan", note + remark, [*head, "decisions", "steps", "minutes: play, learn, rate"], rows)


def _rated(spec: Curriculum, index: int) -> Mapping[tuple[str, str], int]:
    """Games added by the ratings after the stage of this index, by pairing."""
    ratings = spec.ratings
    battles = ratings.battles * len(ratings.sets)
    pairs = {(STUDENT_LABEL, name): battles for name in ratings.opponents}
    if index > 1:
        pairs[STUDENT_LABEL, STUDENT_LABEL] = battles * (index - 1)
    if ratings.among and index == 1:
        pairs |= {(one, two): battles for n, one in enumerate(ratings.opponents) for two in ratings.opponents[:n]}
    return pairs


def _seconds(
    stage: Stage, forecast: Forecast, rated: Mapping[tuple[str, str], int], jobs: int
) -> tuple[tuple[float, float, float], float]:
    """Seconds of playing, training and rating; and the training decisions of all epochs."""
    pairs = list(stage.weighted())
    shares = battles.shares([weight for _, weight in pairs], [0.0] * len(pairs))
    known = {COACH: stage.coach, STUDENT: STUDENT_LABEL}
    wanted: dict[tuple[str, str], float] = defaultdict(float)
    advice = 0.0
    for ((one, two), _), share in zip(pairs, shares, strict=True):
        names = known.get(one, one), known.get(two, two)
        wanted[names] += share * stage.battles
        advice += stage.advice * share * stage.battles * names.count(STUDENT_LABEL)
    asking = advice * forecast.decisions * forecast.asking.get(stage.coach, 0.0) / 1000 / jobs
    decisions = 2 * stage.battles * forecast.decisions * stage.epochs
    spent = forecast.playing(wanted, jobs) + asking, decisions / forecast.pace, forecast.playing(rated, jobs)
    return spent, decisions
