"""Replay buffer of joint steps. Axes: B joint steps, N agents, A actions."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad
from torch.nn.utils.rnn import pad_sequence


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

    def to(self, device: torch.device) -> DecisionFeatures:
        """The same features on a device."""
        return DecisionFeatures(self.state.to(device), self.candidates.to(device), self.allowed.to(device))


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
    """B transitions, with the fields of `Transition` along a first axis.

    A is the largest number of actions.
    """

    scene: DecisionFeatures
    chosen: Tensor
    reward: Tensor
    goes_on: Tensor
    then: DecisionFeatures

    def to(self, device: torch.device) -> TransitionBatch:
        """The same transitions on a device."""
        chosen, reward, goes_on = (tensor.to(device) for tensor in (self.chosen, self.reward, self.goes_on))
        return TransitionBatch(self.scene.to(device), chosen, reward, goes_on, self.then.to(device))


class Replay:
    """Replay buffer of the newest transitions.

    Args:
        size: maximum number of transitions.
    """

    def __init__(self, size: int) -> None:
        self.transitions: deque[Transition] = deque(maxlen=size)

    def __len__(self) -> int:
        return len(self.transitions)

    def add(self, transitions: Iterable[Transition]) -> None:
        """Add transitions; the oldest are dropped."""
        self.transitions.extend(transitions)

    def sample(self, count: int, generator: torch.Generator) -> TransitionBatch:
        """Draw `count` transitions with replacement."""
        drawn = torch.randint(len(self.transitions), (count,), generator=generator).tolist()
        return together([self.transitions[index] for index in drawn])

    def state_dict(self) -> list[Any]:
        """All transitions as plain data; scenes that they share are written once."""
        scenes: dict[int, int] = {}
        written: list[list[Tensor]] = []
        lines = []
        for transition in self.transitions:
            for scene in (transition.scene, transition.then):
                if id(scene) not in scenes:
                    scenes[id(scene)] = len(written)
                    written.append([getattr(scene, field.name) for field in fields(DecisionFeatures)])
            lines.append(
                [
                    scenes[id(transition.scene)],
                    transition.chosen,
                    transition.reward,
                    transition.goes_on,
                    scenes[id(transition.then)],
                ]
            )
        return [written, lines]

    def load_state_dict(self, state: Sequence[Any]) -> None:
        """The inverse of `state_dict`."""
        written, lines = state
        scenes = [DecisionFeatures(*parts) for parts in written]
        self.transitions.clear()
        self.add(
            Transition(scenes[scene], chosen, reward, goes_on, scenes[then])
            for scene, chosen, reward, goes_on, then in lines
        )


def together(transitions: Sequence[Transition]) -> TransitionBatch:
    """Collate transitions to one batch."""
    return TransitionBatch(
        stacked([transition.scene for transition in transitions]),
        torch.stack([transition.chosen for transition in transitions]),
        torch.tensor([transition.reward for transition in transitions], dtype=torch.float32),
        torch.tensor([transition.goes_on for transition in transitions], dtype=torch.float32),
        stacked([transition.then for transition in transitions]),
    )


def stacked(scenes: Sequence[DecisionFeatures]) -> DecisionFeatures:
    """Stack B scenes along a first axis.

    Those with fewer actions are padded with disallowed ones.
    """
    max_actions = max(scene.allowed.shape[1] for scene in scenes)
    missing = [max_actions - scene.allowed.shape[1] for scene in scenes]
    return DecisionFeatures(
        torch.stack([scene.state for scene in scenes]),
        torch.stack([pad(scene.candidates, (0, 0, 0, n)) for scene, n in zip(scenes, missing, strict=True)]),
        torch.stack([pad(scene.allowed, (0, n)) for scene, n in zip(scenes, missing, strict=True)]),
    )


def scene_of(state: Tensor, features: Sequence[Tensor]) -> DecisionFeatures:
    """Make a scene from the state (S,) and the features (A_i, F) of each agent's candidates.

    Raises:
        ValueError: no agent can act.
    """
    counts = torch.tensor([len(agent_features) for agent_features in features])
    if not counts.any():
        raise ValueError("a scene needs an agent that can act")
    candidates = pad_sequence(list(features), batch_first=True)
    return DecisionFeatures(state, candidates, torch.arange(candidates.shape[1]) < counts[:, None])
