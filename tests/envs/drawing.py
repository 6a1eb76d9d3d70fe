"""A good environment, one that draws, and ones whose pictures are broken in one way each."""

from __future__ import annotations

import itertools
import os
from dataclasses import replace
from typing import ClassVar

import numpy as np

from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.tasks import Task


class Good(TextEnv):
    """Two agents, three turns; the first leaves a turn early."""

    metadata: ClassVar = {**TextEnv.metadata, "name": "good_v0"}

    def __init__(self, render_mode=None):
        tasks = [Task(f"t{n}", {"word": f"word{n}"}) for n in range(50)]
        super().__init__(["a", "b"], tasks, render_mode=render_mode, max_length=100)

    def initial_observations(self, task):
        self.said = []
        return dict.fromkeys(self.agents, f"say {task['word']}")

    def transition(self, actions):
        self.said.append(sorted(actions.values()))
        parts = {agent: {"length": len(text) / 100, "fixed": 0.5} for agent, text in actions.items()}
        told = {agent: f"{len(self.said)} turns, you said {text}" for agent, text in actions.items()}
        return StepResult(parts, told, terminated=["a"] if self.turn == 1 else self.turn == 2)


class Draws(Good):
    """A bar as long as the first agent's words."""

    metadata: ClassVar = {**Good.metadata, "render_modes": ["ansi", "rgb_array"]}

    def render(self):
        if self.render_mode != "rgb_array":
            return super().render()
        picture = np.full((4, 200, 3), 255, dtype=np.uint8)
        picture[:, : len("".join(self.said[-1])) % 200 if self.said else 0] = 0
        return picture


class DrawsText(Draws):
    def render(self):
        return "a picture" if self.render_mode == "rgb_array" else super().render()


class DrawsFloats(Draws):
    def render(self):
        return super().render() / 255


class DrawsGrey(Draws):
    def render(self):
        return super().render()[:, :, 0]


class DrawsWithAlpha(Draws):
    def render(self):
        picture = super().render()
        return np.concatenate([picture, picture[:, :, :1]], axis=2)


class GrowsByTurn(Draws):
    def render(self):
        return np.zeros((4 + self.turn, 200, 3), dtype=np.uint8)


class DrawsNoise(Draws):
    def render(self):
        return np.frombuffer(os.urandom(2400), dtype=np.uint8).reshape(4, 200, 3)


class DrawsItself(Draws):
    number = itertools.count()

    def __init__(self):
        super().__init__()
        self.mine = next(self.number) % 256

    def render(self):
        return np.full((4, 200, 3), self.mine, dtype=np.uint8)


class DrawingMoves(Draws):
    def render(self):
        self._log.append(("a <", "looked at"))
        return super().render()


class DrawingDraws(Draws):
    def transition(self, actions):
        outcome = super().transition(actions)
        return replace(outcome, metrics={"luck": float(self.rng.random())})

    def render(self):
        self.rng.random()
        return super().render()
