"""Looking over both shoulders in a battle, to keep what each side saw, asked for and did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.showdown import SIDES, BattleLostError
from palaver.trainers.trajectories.record import MISSING, Decision


@dataclass(slots=True)
class _Seen:
    """A decision that is being made or has been; `slots` are the actions by slot."""

    turn: int
    words: tuple[str, ...]
    numbers: np.ndarray
    slots: tuple[str, ...]
    legal: tuple[str, ...]
    text: str
    requested: str = ""
    executed: str = ""
    reward: float = 0.0
    advice: np.ndarray | None = None

    def decision(self) -> Decision:
        slot = self.slots.index(self.executed) if self.executed in self.slots else MISSING
        mask = np.array([bool(label) for label in self.slots])
        return Decision(
            self.turn,
            self.words,
            self.numbers,
            mask,
            slot,
            self.requested,
            self.executed,
            self.legal,
            self.reward,
            self.text,
            self.advice,
        )


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
        self._seen: dict[str, list[_Seen]] = {side: [] for side in SIDES}
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
        self._seen[side].append(_Seen(battle.turn, *self._env.seen(side), legal, text if self._texts else ""))
        return True

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
        seen = self._seen[side][-1]
        row = np.array([shares.get(label, 0.0) if label else 0.0 for label in seen.slots], np.float32)
        if row.any():
            seen.advice = row / row.sum()

    def after(self, rewards: Mapping[str, float], infos: Mapping[str, Mapping[str, Any]]) -> None:
        """Record the rewards and the executed actions of the step.

        Args:
            rewards: that the step returned.
            infos: that the step returned.
        """
        for side in self._open:
            self._seen[side][-1].requested = infos[side]["requested"]
            self._seen[side][-1].executed = infos[side]["executed"]
        for side, reward in rewards.items():
            if self._seen[side]:
                self._seen[side][-1].reward += reward

    def decisions(self, side: str) -> tuple[Decision, ...]:
        """All of a side, in order; a reward belongs to the side's last decision before it."""
        return tuple(seen.decision() for seen in self._seen[side])
