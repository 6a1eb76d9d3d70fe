"""Recording of arena battles as trajectories of both sides.

See `palaver.trainers.trajectories`. A battle's name identifies game, settings and players: the same game is recorded
once, and a game counts as played only if it is recorded. It is written before it is reported, so a kill may leave it
recorded and unreported; it is then played again and not recorded again.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from palaver.core import ConfigError, stable_seed
from palaver.envs.base.env import TextEnv
from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.players.registry import Ask, adviser
from palaver.envs.pokemon.showdown import BattleLostError
from palaver.trainers.matches.config import GameSpec, TournamentConfig
from palaver.trainers.matches.play import Watch, match_seed
from palaver.trainers.matches.results import GameResult, describe
from palaver.trainers.trajectories import index
from palaver.trainers.trajectories.files import Writer
from palaver.trainers.trajectories.record import Trajectory
from palaver.trainers.trajectories.watch import Observer

_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Advice:
    """A coach that labels decisions of other players with its own action.

    Attributes:
        coach: one of `palaver.envs.pokemon.players.registry.ADVISERS`.
        labels: labels of the players whose decisions it labels.
        share: fraction of these decisions, drawn by the battle's seed.
    """

    coach: str
    labels: tuple[str, ...]
    share: float


@dataclass(frozen=True)
class Recording:
    """Settings of the recording of battles.

    Attributes:
        folder: folder of the battles; may hold those of other arenas.
        texts: record text observations too.
        advice: labels of a coach; None: none.
    """

    folder: Path
    texts: bool = False
    advice: Advice | None = None

    def check(self, setting: TournamentConfig) -> None:
        """Refuse an arena that cannot be recorded.

        Raises:
            ConfigError: its environment has no battles, or `texts` is set and its observations are no texts.
        """
        for teamset in setting.sets:
            with contextlib.closing(setting.environment(teamset)) as env:
                if not isinstance(env, PokemonEnv):
                    raise ConfigError(f"only battles of pokemon-v1 can be recorded, not {setting.spec.id}")
                if self.texts and env.observation != "text":
                    raise ConfigError(
                        "texts can be recorded only with observation=text; leave tournament.record_text=true out"
                    )

    def held(self, setting: TournamentConfig, done: Sequence[GameResult]) -> list[GameResult]:
        """Finished games whose battle is in the folder.

        Raises:
            CheckpointError: the folder holds something else.
        """
        held, named = index.battles(self.folder), Names(setting)
        return [played for played in done if named.of(played.game) in held]


class Names:
    """Names of battles by game, for one setting.

    A name has a hash of 63 bits of settings and players, with the checkpoint of those that have one.
    """

    def __init__(self, setting: TournamentConfig) -> None:
        settings = describe(setting)
        self._players: Mapping[str, str] = settings.pop("players")
        self._settings = json.dumps(settings, sort_keys=True)

    def of(self, game: GameSpec) -> str:
        """Name of the battle of one game."""
        one, two = self._players[game.first], self._players[game.second]
        settings_hash = stable_seed(self._settings, game.teamset, one, two)
        return f"{game.first}-{game.second}-{game.match}{'ab'[game.swapped]}-{_short(settings_hash)}"


def _short(number: int) -> str:
    text = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        text = _DIGITS[digit] + text
    return text


@contextlib.contextmanager
def recorder(setting: TournamentConfig, recording: Recording | None) -> Iterator[Watch | None]:
    """Context with an observer that writes each game as it ends; None for no recording.

    Raises:
        ConfigError: the folder cannot be written.
        CheckpointError: it holds something else.
    """
    if recording is None:
        yield None
        return
    named = Names(setting)
    with Writer(recording.folder) as writer:

        def watch(env: TextEnv, game: GameSpec) -> _Watcher | None:
            battle = named.of(game)
            if battle in writer or not isinstance(env, PokemonEnv):
                return None
            seed = match_seed(setting, game)
            advisers = _advisers(recording.advice, env, game, seed) if recording.advice else {}
            draw = random.Random(stable_seed("advice", seed, game.swapped))
            share = recording.advice.share if recording.advice else 0.0
            return _Watcher(writer, battle, seed, Observer(env, recording.texts), env, advisers, share, draw)

        yield watch


def _advisers(wanted: Advice, env: PokemonEnv, game: GameSpec, seed: int) -> dict[str, Ask]:
    """Side -> its coach."""
    return {
        side: adviser(wanted.coach, env, side, stable_seed("adviser", seed, side, game.swapped))
        for side, label in zip(env.possible_agents, game.seating, strict=True)
        if label in wanted.labels
    }


@dataclass(slots=True)
class _Watcher:
    """Observer of one game that is recorded."""

    writer: Writer
    battle: str
    seed: int
    observer: Observer
    env: PokemonEnv
    advisers: Mapping[str, Ask]
    share: float
    draw: random.Random

    def before(self, observations: Mapping[str, str]) -> None:
        self.observer.before(observations)
        with contextlib.suppress(BattleLostError):  # the step that follows says so, and the battle does not count
            for side in self.observer.sides_to_act:
                if side in self.advisers and self.draw.random() < self.share:
                    self.observer.advise(side, self.advisers[side]())

    def after(self, rewards: Mapping[str, float], infos: Mapping[str, Mapping[str, Any]]) -> None:
        self.observer.after(rewards, infos)

    def ended(self, played: GameResult) -> None:
        if played.failed:
            return
        game, sides = played.game, []
        for side, label, opponent in zip(self.env.possible_agents, game.seating, game.seating[::-1], strict=True):
            result = played.score if label == game.first else 1 - played.score
            decisions = self.observer.decisions(side)
            if decisions:
                sides.append(
                    Trajectory(
                        self.battle,
                        self.env.format,
                        side,
                        label,
                        opponent,
                        game.teamset or str(self.env.source),
                        played.task,
                        self.seed,
                        result,
                        decisions,
                    )
                )
        self.writer.add(*sides)
