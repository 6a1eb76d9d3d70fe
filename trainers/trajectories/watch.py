"""Looking over both shoulders in a battle, to keep what each side saw, asked for and did."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from palaver.envs.pokemon.env import PokemonEnv
from palaver.envs.pokemon.showdown import SIDES, BattleLostError
from palaver.trainers.trajectories.record import MISSING, Decision


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
