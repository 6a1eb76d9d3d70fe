"""Replay buffer of joint steps. Axes: B joint steps, N agents, A actions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class DecisionFeatures:
    """Features of a decision of the team.

    Attributes:
        state: (S,) features of the joint conversation.
        candidates: (N, A, F) features of each agent's candidate actions.
        allowed: (N, A) false beyond an agent's own candidates; everywhere for one that may not act.
    """

    state: Tensor
    candidates: Tensor
    allowed: Tensor


@dataclass(frozen=True, slots=True)
class Transition:
    """A joint step.

    Attributes:
        scene: scene of the decision.
        chosen: (N,) index of each agent's action among its candidates, 0 for one that could not act.
        reward: discounted team reward until its next decision.
        goes_on: discount of the next scene's value, 0 if the episode ended.
        then: the next scene; if there is none, the same again.
    """

    scene: DecisionFeatures
    chosen: Tensor
    reward: float
    goes_on: float
    then: DecisionFeatures


@dataclass(frozen=True, slots=True)
class TransitionBatch:
    """B transitions, with the fields of `Transition` along a first axis; A is the largest number of actions."""

    scene: DecisionFeatures
    chosen: Tensor
    reward: Tensor
    goes_on: Tensor
    then: DecisionFeatures


class Replay:
    """Replay buffer of the newest transitions.

    Args:
        size: maximum number of transitions.
    """

    def __init__(self, size: int) -> None:
        self.kept: deque[Transition] = deque(maxlen=size)

    def __len__(self) -> int:
        return len(self.kept)

    def add(self, transitions: Iterable[Transition]) -> None:
        """Add transitions; the oldest are dropped."""
        self.kept.extend(transitions)

    def sample(self, count: int, generator: torch.Generator) -> TransitionBatch:
        """Draw `count` transitions with replacement."""
        drawn = torch.randint(len(self.kept), (count,), generator=generator).tolist()
        return together([self.kept[place] for place in drawn])

    def state_dict(self) -> list[Any]:
        """All transitions as plain data; scenes that they share are written once."""
        scenes: dict[int, int] = {}
        written: list[list[Tensor]] = []
        lines = []
        for each in self.kept:
            for scene in (each.scene, each.then):
                if id(scene) not in scenes:
                    scenes[id(scene)] = len(written)
                    written.append([getattr(scene, field.name) for field in fields(DecisionFeatures)])
            lines.append([scenes[id(each.scene)], each.chosen, each.reward, each.goes_on, scenes[id(each.then)]])
        return [written, lines]

    def load_state_dict(self, state: Sequence[Any]) -> None:
        """The inverse of `state_dict`."""
        written, lines = state
        scenes = [DecisionFeatures(*parts) for parts in written]
        self.kept.clear()
        self.add(
            Transition(scenes[here], chosen, reward, goes_on, scenes[then])
            for here, chosen, reward, goes_on, then in lines
        )


def together(transitions: Sequence[Transition]) -> TransitionBatch:
    """Collate transitions to one batch."""
    return TransitionBatch(
        stacked([each.scene for each in transitions]),
        torch.stack([each.chosen for each in transitions]),
        torch.tensor([each.reward for each in transitions], dtype=torch.float32),
        torch.tensor([each.goes_on for each in transitions], dtype=torch.float32),
        stacked([each.then for each in transitions]),
    )


def stacked(scenes: Sequence[DecisionFeatures]) -> DecisionFeatures:
    """Stack B scenes along a first axis; those with fewer actions are padded with disallowed ones."""
    most = max(scene.allowed.shape[1] for scene in scenes)
    wide = [scene if scene.allowed.shape[1] == most else _widened(scene, most) for scene in scenes]
    return DecisionFeatures(
        torch.stack([scene.state for scene in wide]),
        torch.stack([scene.candidates for scene in wide]),
        torch.stack([scene.allowed for scene in wide]),
    )


def _widened(scene: DecisionFeatures, most: int) -> DecisionFeatures:
    agents, actions, features = scene.candidates.shape
    more = scene.candidates.new_zeros(agents, most - actions, features)
    none = scene.allowed.new_zeros(agents, most - actions)
    return DecisionFeatures(scene.state, torch.cat([scene.candidates, more], 1), torch.cat([scene.allowed, none], 1))


def scene_of(state: Tensor, features: Sequence[Tensor]) -> DecisionFeatures:
    """Make a scene from the state (S,) and the features (A_i, F) of each agent's candidates.

    Raises:
        ValueError: no agent can act.
    """
    most = max(len(each) for each in features)
    if not most:
        raise ValueError("a scene needs an agent that can act")
    width = features[0].shape[1]
    candidates, allowed = torch.zeros(len(features), most, width), torch.zeros(len(features), most, dtype=torch.bool)
    for agent, each in enumerate(features):
        candidates[agent, : len(each)], allowed[agent, : len(each)] = each, True
    return DecisionFeatures(state, candidates, allowed)
