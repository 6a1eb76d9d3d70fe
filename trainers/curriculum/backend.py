"""Work of a curriculum: play recorded battles in the arena, and train on them by cloning."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from palaver.core import CheckpointError, ConfigError, Sampling, stable_seed
from palaver.envs.pokemon.players.registry import check
from palaver.trainers.behaviour_cloning.config import BCConfig
from palaver.trainers.curriculum.battles import BattleOrder
from palaver.trainers.curriculum.config import COACH, ENV, STUDENT, Curriculum, Stage
from palaver.trainers.matches import players
from palaver.trainers.matches import workers as pool
from palaver.trainers.matches.config import TournamentConfig
from palaver.trainers.matches.recording import Recording
from palaver.trainers.matches.results import GAMES, GameResult, read_games
from palaver.trainers.run.files import METRICS
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.trajectories.files import TrajectoryEntry
from palaver.trainers.trajectories.reader import Reader
from palaver.utils.config import validated
from palaver.utils.machine import usable_cores

RECORD = "record"  # folder of the decisions, within that of the games

Tick = Callable[[str, int], None]  # (what was done, total)


def no_report(*_: object) -> None:
    """Progress callback that shows nothing."""


@dataclass(frozen=True)
class BattleData:
    """Recorded battles as training data.

    Attributes:
        folder: of the battles.
        weight: share of the decisions taken from it.
        players: whose decisions the policy imitates; None for all. The value is trained on all.
        winners: imitate winners only.
    """

    folder: Path
    weight: float
    players: frozenset[str] | None = None
    winners: bool = False


@dataclass(frozen=True)
class TrainingJob:
    """One training.

    Attributes:
        stage: whose settings it has; an epoch is over as many decisions as `stage_sources` hold.
        sources: training data; their weights add up to 1.
        stage_sources: those of them played in the stage, which set the number of decisions of an epoch.
        start: the initial network; None for a fresh one.
        seed: of this training.
    """

    stage: Stage
    sources: tuple[BattleData, ...]
    stage_sources: tuple[BattleData, ...]
    start: Path | None
    seed: int


@dataclass(frozen=True)
class TrainingResult:
    """A trained network with the digest of its weights.

    Its cost is given in optimiser steps, decisions seen in all of them, and seconds.
    """

    net: Path
    digest: str
    steps: int
    decisions: int
    seconds: float


@dataclass(frozen=True)
class Backend:
    """Plays the battles of a curriculum in the arena, and trains by behaviour cloning.

    A call resumes an earlier one with the same arguments, interrupted at any moment, and repeats no finished work.
    """

    spec: Curriculum

    def play(self, order: BattleOrder, folder: Path, recorded: bool, tick: Tick) -> Sequence[GameResult]:
        """Play the battles of the order that were not played before; returns all valid ones.

        `games.jsonl` in the folder holds them; if `recorded`, the folder also holds the decisions of both sides.
        `tick` is called as each ends, and at once for those that had ended.

        Raises:
            PalaverError: an unavailable player or team set, or a process that died.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot write {str(folder)!r}: {error.strerror}") from error
        setting = self.setting(order.players, [game.teamset for game in order.games], order.seed)
        recording = Recording(folder / RECORD, advice=order.advice) if recorded else None
        done = _finished(order, folder)
        known = {played.game for played in (recording.held(setting, done) if recording else done)}
        waiting = [game for game in order.games if game not in known]
        for _ in range(len(order.games) - len(waiting)):
            tick("", len(order.games))
        if waiting:
            needed = dict.fromkeys(label for game in waiting for label in (game.first, game.second))
            tournament = replace(setting, players={label: order.players[label] for label in needed})
            jobs = self.spec.jobs or usable_cores()
            pool.run(
                tournament, waiting, folder, jobs, partial(_report_game, tick, len(order.games)), recording=recording
            )
        return _finished(order, folder)

    def setting(self, named: Mapping[str, str], teamsets: Sequence[str], seed: int) -> TournamentConfig:
        """An arena of the curriculum's format."""
        return TournamentConfig(
            env=ENV,
            players=named,
            keywords={"format": self.spec.format, **self.spec.keywords},
            teamsets=tuple(dict.fromkeys(teamsets)),
            battles=2,
            seed=seed,
            sampling=Sampling(temperature=0.0),
            parallel=self.spec.parallel,
        )

    def train(self, job: TrainingJob, folder: Path, tick: Tick) -> TrainingResult:
        """Train a network in this folder; its `metrics.jsonl` has a line for every logged step.

        Raises:
            PalaverError: settings, battles or a network that do not fit.
        """
        from palaver.agents.battle_net import files  # needs torch, which a report does not
        from palaver.trainers.behaviour_cloning.train import clone

        config = cloning_config(self.spec, job.stage, job.seed)
        readers = {source: read(source) for source in dict.fromkeys((*job.stage_sources, *job.sources))}
        entries = [entry for source in job.stage_sources for entry in readers[source].entries]
        taught, size = sum(entry.taught for entry in entries), sum(entry.decisions for entry in entries)
        chosen = [
            sized(readers[source], source.weight * taught, source.weight * size, stable_seed(job.seed, "sized", n))
            for n, source in enumerate(job.sources)
        ]
        sources = [
            (reader, float(sum(entry.decisions for entry in reader.entries))) for reader in chosen if reader.entries
        ]
        net = clone(
            config,
            folder,
            sources,
            job.start,
            lambda step, steps, metrics: tick(f"step {step}, loss {metrics['loss']:.3f}", steps),
        )
        lines = [line for line in read_metrics(folder / METRICS) if line["kind"] == "train"]
        seen = sum(int(line["decisions"]) for line in lines)
        return TrainingResult(net, files.identity(net), int(lines[-1]["step"]), seen, float(lines[-1]["seconds"]))

    def check(self) -> None:
        """Validate every player, team set, setting and folder before any work.

        Raises:
            PalaverError: the first mistake, with its stage.
        """
        spec = self.spec
        rated = self.setting({name: name for name in (*spec.ratings.opponents, "random")}, spec.ratings.sets, 0)
        for teamset in dict.fromkeys([*spec.ratings.sets, *(name for stage in spec.stages for name in stage.teams)]):
            rated.environment(teamset).close()
        students = {stage.name for stage in spec.stages}
        for stage in spec.stages:
            for name in stage.names:
                if name not in students | {STUDENT, COACH}:
                    players.check(rated, name)
            if stage.advice:
                check(stage.coach)
            mix = spec.mix_of(stage)
            for folder in mix.human if mix.synthetic < 1 else ():
                read(BattleData(Path(folder), 1.0))
            cloning_config(spec, stage, 0)
        for name in spec.ratings.opponents:
            players.check(rated, name)


def cloning_config(spec: Curriculum, stage: Stage, seed: int) -> BCConfig:
    """Return the behaviour cloning config of a stage.

    Raises:
        ConfigError: one of `options` does not exist or has a value that does not fit.
    """
    settings = {
        "size": spec.size,
        "loss": stage.loss,
        "epochs": stage.epochs,
        "seed": seed % 2**31,
        "device": spec.device,
    }
    taken = sorted(set(settings) & set(stage.options))
    if taken:
        raise ConfigError(
            f"stages.{stage.name}.options.{taken[0]}: a stage or the curriculum has a key of its own for it"
        )
    return validated(BCConfig, {**stage.options, **settings}, f"stages.{stage.name}.options.")


def read(source: BattleData) -> Reader:
    """Read a source, in an order that does not depend on playing speed.

    Players whose decisions are not imitated still train the value head by their results.

    Raises:
        CheckpointError: there are no battles in its folder.
    """
    folder = source.folder / RECORD if (source.folder / RECORD).is_dir() else source.folder
    reader = Reader(folder).mute(player=source.players, result=1.0 if source.winners else None)
    if not reader.entries:
        raise CheckpointError(f"{str(folder)!r} holds no battles")
    if source.winners and all(entry.mute for entry in reader.entries):
        raise CheckpointError(
            f"{str(folder)!r} holds no battles that somebody won, so there are no winners to learn from"
        )
    reader.entries = sorted(
        reader.entries,
        key=lambda entry: (entry.teamset, entry.seed, entry.player, entry.opponent, entry.side, entry.battle),
    )
    return reader


def sized(reader: Reader, taught: float, decisions: float, seed: int) -> Reader:
    """Subsample a reader to about `decisions` decisions, about `taught` of them imitated.

    The others train the value only, see `TrajectoryEntry.taught`. The former determine what can be learnt from a
    source, all together its cost.

    Whole trajectories are taken, in an order given by the seed: policy-training ones until `taught` is reached, then
    others until `decisions` is, that is those that train the value only and after them the first kind muted. It stops
    at the nearest sum. If there are too few, the order is repeated from the beginning, so that the counts of two
    trajectories of a kind differ by at most one. A source that is wanted whole is taken whole.

    Args:
        reader: of a source, with one trajectory or more.
        taught: number of policy-training decisions; with 0 or less none of those trajectories is taken.
        decisions: total number of decisions.
        seed: of the choice.
    """
    order = np.random.default_rng(seed).permutation(len(reader.entries)).tolist()
    teach = [n for n in order if reader.entries[n].taught]
    candidates = [(n, reader.entries[n]) for n in order if not reader.entries[n].taught]
    candidates += [(n, replace(reader.entries[n], mute=True)) for n in teach if not reader.entries[n].advised]
    chosen = _taken([(n, reader.entries[n]) for n in teach], lambda entry: entry.taught, taught)
    left = decisions - sum(entry.decisions for _, entry in chosen)
    chosen += _taken(candidates, lambda entry: entry.decisions, left)
    selected = copy.copy(reader)
    selected.entries = [entry for _, entry in sorted(chosen, key=lambda pair: pair[0])]
    return selected


def _taken(
    order: Sequence[tuple[int, TrajectoryEntry]], amount: Callable[[TrajectoryEntry], int], wanted: float
) -> list[tuple[int, TrajectoryEntry]]:
    """Take entries in order, cyclically, until their sum is nearest to the wanted amount."""
    chosen: list[tuple[int, TrajectoryEntry]] = []
    total = 0
    for index, entry in itertools.cycle(order):
        if wanted - total <= amount(entry) / 2:
            break
        chosen.append((index, entry))
        total += amount(entry)
    return chosen


def _finished(order: BattleOrder, folder: Path) -> list[GameResult]:
    wanted = set(order.games)
    return [played for played in read_games(folder / GAMES) if played.game in wanted]


def _report_game(tick: Tick, total: int, played: GameResult) -> None:
    game = played.game
    ends = {1.0: "beat", 0.5: "tied with", 0.0: "lost to"}[played.score]
    if not played.failed:
        tick(f"{game.first} {ends} {game.second}", total)
