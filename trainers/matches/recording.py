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
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from palaver.core import ConfigError, stable_seed
from palaver.envs.base.env import TextEnv
from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.players.registry import Ask, adviser
from palaver.envs.pokemon.showdown import SIDES, BattleLostError
from palaver.trainers.matches.config import GameSpec, TournamentConfig
from palaver.trainers.matches.play import Watch, match_seed
from palaver.trainers.matches.results import GameResult, describe
from palaver.trainers.trajectories import files
from palaver.trainers.trajectories.files import Writer
from palaver.trainers.trajectories.record import MISSING, Decision, Trajectory


class Observer:
    """Follows one battle from its reset to its end: `before` and `after` every step.

        observer = Observer(env)
        while env.agents:
            observer.before(observations)
            observations, rewards, _, _, infos = env.step(actions)
            observer.after(rewards, infos)
        observer.decisions("p1")

    Args:
        env: that is played in, with any kind of observation.
        texts: keep the observations as text too.
    """

    def __init__(self, env: PokemonEnv, texts: bool = False) -> None:
        self._env, self._texts = env, texts
        self._decisions: dict[str, list[Decision]] = {side: [] for side in SIDES}
        self._slots: dict[str, tuple[str, ...]] = {}  # side -> the actions by slot of its last decision
        self._open: list[str] = []

    def before(self, observations: Mapping[str, str]) -> None:
        """Record the observations of the sides that may act.

        Args:
            observations: the last that the environment returned, by side.
        """
        self._open = []
        try:
            for side in self._env.agents:
                if self._look(side, observations[side]):
                    self._open.append(side)
        except BattleLostError:
            return  # the step that follows says so, and the battle does not count

    def _look(self, side: str, text: str) -> bool:
        battle = self._env.battle
        assert battle is not None
        view = self._env.view(side)
        if not view["legal"]:
            return False
        legal = tuple(label for label, _ in view["legal"])
        words, numbers, slots = self._env.seen(side)
        mask = np.array([bool(label) for label in slots])
        kept = text if self._texts else ""
        self._slots[side] = slots
        self._decisions[side].append(Decision(battle.turn, words, numbers, mask, MISSING, "", "", legal, 0.0, kept))
        return True

    def _update(self, side: str, **changes: Any) -> None:
        """Change the last decision of a side."""
        self._decisions[side][-1] = replace(self._decisions[side][-1], **changes)

    @property
    def sides_to_act(self) -> Sequence[str]:
        """The sides that may act now."""
        return tuple(self._open)

    def advise(self, side: str, shares: Mapping[str, float]) -> None:
        """Record a coach's distribution over a side's legal actions, after `before`.

        Args:
            side: that may act.
            shares: action -> share, which add up to 1; actions without a slot are dropped.
        """
        row = np.array([shares.get(label, 0.0) if label else 0.0 for label in self._slots[side]], np.float32)
        if row.any():
            self._update(side, advice=row / row.sum())

    def after(self, rewards: Mapping[str, float], infos: Mapping[str, Mapping[str, Any]]) -> None:
        """Record the rewards and the executed actions of the step.

        Args:
            rewards: that the step returned.
            infos: that the step returned.
        """
        for side in self._open:
            executed, slots = infos[side]["executed"], self._slots[side]
            slot = slots.index(executed) if executed in slots else MISSING
            self._update(side, requested=infos[side]["requested"], executed=executed, slot=slot)
        for side, reward in rewards.items():
            if self._decisions[side]:
                self._update(side, reward=self._decisions[side][-1].reward + reward)

    def decisions(self, side: str) -> tuple[Decision, ...]:
        """All of a side, in order; a reward belongs to the side's last decision before it."""
        return tuple(self._decisions[side])


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
        held, named = files.battles(self.folder), Names(setting)
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
def recorder(setting: TournamentConfig, recording: Recording) -> Iterator[Watch]:
    """Context with an observer that writes each game as it ends.

    Raises:
        ConfigError: the folder cannot be written.
        CheckpointError: it holds something else.
    """
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
