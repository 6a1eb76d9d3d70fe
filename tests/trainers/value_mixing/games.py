"""Games of matrix-v1 as transitions: every joint action of every state once, texts replaced by one-hot features."""

from __future__ import annotations

import itertools
from statistics import fmean

import numpy as np
import torch
from torch import Tensor
from torch.optim.lr_scheduler import ReduceLROnPlateau

from palaver.envs.matrix import games
from palaver.envs.matrix.rules import MatrixGame
from palaver.trainers.config.mixer import MixerConfig
from palaver.trainers.value_decomposition.factored import FactoredValues, Shape
from palaver.trainers.value_decomposition.replay import (
    DecisionFeatures,
    Transition,
    TransitionBatch,
    scene_of,
    together,
)

TOLERANCE = 1e-4  # of the loss, absolute
PERIODS = 100


def scenes(game: MatrixGame) -> list[DecisionFeatures]:
    """One for each state: agents are told the state, so that a table holds Q_i(state, action)."""
    states, actions = len(game.states), max(game.sizes)
    one_hot = torch.eye(states * actions)
    return [
        scene_of(
            torch.eye(states)[state],
            [one_hot[state * actions : state * actions + size] for size in game.sizes],
        )
        for state in range(states)
    ]


def transitions(game: MatrixGame, discount: float) -> list[Transition]:
    """Every joint action of every state."""
    told = scenes(game)
    found = []
    for state in range(len(game.states)):
        for joint in itertools.product(*map(range, game.sizes)):
            place = game.index(joint)
            then = int(game.successor[state, place])
            on = then < len(game.states)
            reward = float(game.payoffs[state, place].mean())
            found.append(
                Transition(
                    told[state], torch.tensor(joint), reward, discount if on else 0.0, told[then if on else state]
                )
            )
    return found


def fitted(name: str, kind: str, seed: int, discount: float = 0.99, **changes: object) -> FactoredValues:
    """Values that have learnt from every joint action of a game, all of them in every update, until they converge.

    The loss of a period is its mean between two copies of the target. The fit has converged where the losses of three
    periods in sequence differ by less than `TOLERANCE` (absolute). A constant rate may circle the minimum for ever, so
    it is halved where a period is no better than the best before.
    """
    game = games.load(name)
    config = MixerConfig.model_validate({"optimizer": "adam", "lr": 2e-2, "target_every": 40} | changes)
    shape = Shape(len(game.agents), len(game.states) * max(game.sizes), len(game.states), linear=True, shared=False)
    found = FactoredValues(config, kind, shape, seed)
    batch: TransitionBatch = together(transitions(game, discount))
    schedule = ReduceLROnPlateau(
        found.optimizer, factor=0.5, patience=0, threshold=TOLERANCE, threshold_mode="abs", eps=0.0
    )
    losses: list[float] = []
    while len(losses) < 3 or max(losses[-3:]) - min(losses[-3:]) >= TOLERANCE:
        assert len(losses) < PERIODS, f"not converged after {found.updates} updates: {losses[-3:]}"
        losses.append(fmean(found.update(batch)[0] for _ in range(config.target_every)))
        schedule.step(losses[-1])
    return found


def table(found: FactoredValues, name: str) -> np.ndarray:
    """Q_tot of every joint action, (S, A, A)."""
    game = games.load(name)
    told = scenes(game)
    rows = []
    for state, scene in enumerate(told):
        q = found.values(scene.candidates[None])[0]
        joint = list(itertools.product(*map(range, game.sizes)))
        chosen = torch.tensor([[q[agent, action] for agent, action in enumerate(each)] for each in joint])
        total: Tensor = found.total(chosen, told[state].state.expand(len(joint), -1))
        rows.append(total.numpy().reshape(game.sizes))
    return np.stack(rows)


def played(found: FactoredValues, name: str) -> float:
    """The undiscounted return of the greedy team."""
    game = games.load(name)
    told, state, paid = scenes(game), 0, 0.0
    while state < len(game.states):
        joint = found.values(told[state].candidates[None])[0].argmax(dim=1).tolist()
        paid += float(game.payoffs[state, game.index(joint)].mean())
        state = int(game.successor[state, game.index(joint)])
    return paid
