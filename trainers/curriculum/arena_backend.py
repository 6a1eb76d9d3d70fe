"""Default curriculum backend: plays recorded battles in the arena, trains by cloning."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from pydantic import ValidationError

from palaver.agents.battle_net import files
from palaver.core import CheckpointError, ConfigError, Sampling, stable_seed, usable_cores
from palaver.envs.pokemon.players.registry import check
from palaver.trainers.behaviour_cloning.config import BCConfig
from palaver.trainers.curriculum.backend import BattleData, Tick, TrainingJob, TrainingResult
from palaver.trainers.curriculum.battles import BattleOrder
from palaver.trainers.curriculum.config import COACH, ENV, STUDENT, Curriculum
from palaver.trainers.curriculum.subsample import sized
from palaver.trainers.matches import players
from palaver.trainers.matches import workers as pool
from palaver.trainers.matches.config import GameSpec, TournamentConfig
from palaver.trainers.matches.recording import Recording
from palaver.trainers.matches.results import GAMES, GameResult, read_games
from palaver.trainers.run.files import METRICS
from palaver.trainers.run.logging import read_metrics
from palaver.trainers.trajectories.reader import Reader

RECORD = "record"  # folder of the decisions, within that of the games


@dataclass(frozen=True)
class ArenaBackend:
    """Backend of a curriculum."""

    spec: Curriculum

    def play(self, order: BattleOrder, folder: Path, recorded: bool, tick: Tick) -> Sequence[GameResult]:
        """See `Backend.play`.

        Raises:
            PalaverError: an unavailable player or team set, or a process that died.
        """
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(f"cannot write {str(folder)!r}: {error.strerror}") from error
        setting = self.setting(order.players, [game.teamset for game in order.games], order.seed)
        recording = Recording(folder / RECORD, advice=order.advice) if recorded else None
        waiting = self._missing(setting, order, folder, recording)
        for _ in range(len(order.games) - len(waiting)):
            tick("", len(order.games))
        if waiting:
            needed = dict.fromkeys(label for game in waiting for label in (game.first, game.second))
            tournament = replace(setting, players={label: order.players[label] for label in needed})
            jobs = self.spec.jobs or usable_cores()
            pool.run(
                tournament, waiting, folder, jobs, partial(_report_game, tick, len(order.games)), recording=recording
            )
        wanted = set(order.games)
        return [played for played in read_games(folder / GAMES) if played.game in wanted]

    def _missing(
        self, setting: TournamentConfig, order: BattleOrder, folder: Path, recording: Recording | None
    ) -> list[GameSpec]:
        """Games that have not ended, or are not recorded as required."""
        wanted = set(order.games)
        done = [played for played in read_games(folder / GAMES) if played.game in wanted]
        known = {played.game for played in (recording.held(setting, done) if recording else done)}
        return [game for game in order.games if game not in known]

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
        """See `Backend.learn`.

        Raises:
            PalaverError: settings, battles or a network that do not fit.
        """
        from palaver.trainers.behaviour_cloning.train import clone

        config = config_of(job)
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

    def player(self, net: Path) -> str:
        """See `Backend.player`."""
        return f"net:{net}"

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
            config_of(TrainingJob((), (), None, spec.size, stage.epochs, stage.loss, 0, spec.device, stage.options))
        for name in spec.ratings.opponents:
            players.check(rated, name)


def config_of(job: TrainingJob) -> BCConfig:
    """Return the behaviour cloning config of a training.

    Raises:
        ConfigError: one of `options` does not exist or has a value that does not fit.
    """
    settings = {
        "size": job.size,
        "loss": job.loss,
        "epochs": job.epochs,
        "seed": job.seed % 2**31,
        "device": job.device,
    }
    taken = sorted(set(settings) & set(job.options))
    if taken:
        raise ConfigError(f"options.{taken[0]}: a stage or the curriculum has a key of its own for it")
    try:
        return BCConfig.model_validate({**job.options, **settings})
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise ConfigError(
            f"options.{key} of a stage: {first['msg'].lower()}, got {first.get('input')!r:.80}"
        ) from error


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


def _report_game(tick: Tick, total: int, played: GameResult) -> None:
    game = played.game
    ends = {1.0: "beat", 0.5: "tied with", 0.0: "lost to"}[played.score]
    if not played.failed:
        tick(f"{game.first} {ends} {game.second}", total)
