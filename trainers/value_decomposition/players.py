"""Epsilon-greedy agents over the values of legal actions."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch

from palaver.core import CheckpointError, Conversation, Message
from palaver.envs.base.env import TextEnv
from palaver.trainers.algorithms.base import chosen
from palaver.trainers.config.loading import parse_file
from palaver.trainers.config.run import RunConfig
from palaver.trainers.rollout.branches import with_observation
from palaver.trainers.run import checkpoint
from palaver.trainers.run.files import CONFIG, refuse_no_run
from palaver.trainers.value_decomposition.encoders import Encoder, encoder
from palaver.trainers.value_decomposition.factored import FactoredValues, Shape
from palaver.trainers.value_decomposition.replay import DecisionFeatures, scene_of, stacked
from palaver.trainers.value_decomposition.targets import greedy


@dataclass(frozen=True, slots=True)
class TeamDecision:
    """State of a team's decision.

    Attributes:
        state: joint conversation of the team.
        conversations: conversation of each agent.
        legal: actions of each agent, none for one that may not act.
    """

    state: str
    conversations: Sequence[Conversation]
    legal: Sequence[Sequence[str]]


class ValueTeam:
    """Values of legal actions of all trained agents.

    Args:
        config: config of the run.
        agents: the trained agents.
        device: device of a model-based encoder.
    """

    def __init__(self, config: RunConfig, agents: Sequence[str], device: str) -> None:
        kind = chosen(config.algorithm).mixer
        assert kind != "none"  # the caller has seen that the algorithm mixes values
        self.agents = tuple(agents)
        self.encoder: Encoder = encoder(config, device)
        shared = config.team.kind == "shared"
        shape = Shape(len(agents), self.encoder.action, self.encoder.state, linear=self.encoder.one_hot, shared=shared)
        self.values = FactoredValues(config.algorithm.mixer, kind, shape, config.seed)

    def look(self, decisions: Sequence[TeamDecision]) -> list[DecisionFeatures]:
        """Encode decisions as features.

        Raises:
            ConfigError: the encoder is a table, and it is full.
        """
        states = self.encoder.states([decision.state for decision in decisions])
        pairs = [
            (conversation, action)
            for decision in decisions
            for conversation, legal in zip(decision.conversations, decision.legal, strict=True)
            for action in legal
        ]
        counts = [len(legal) for decision in decisions for legal in decision.legal]
        parts = torch.split(self.encoder.actions(pairs), counts)
        n = len(self.agents)
        return [scene_of(state, parts[index * n : index * n + n]) for index, state in enumerate(states)]

    def choose(self, scenes: Sequence[DecisionFeatures], seeds: Sequence[int], epsilon: float) -> list[list[int]]:
        """Index of each agent's epsilon-greedy action in each scene.

        The draws of a scene depend on its seed alone.
        """
        together = stacked(scenes)
        best = greedy(self.values.values(together.candidates), together.allowed).tolist()
        counts = together.allowed.sum(dim=-1).tolist()
        for row, seed in enumerate(seeds):
            draw = random.Random(seed)
            for agent, count in enumerate(counts[row]):
                explores, random_action = draw.random() < epsilon, draw.randrange(max(1, count))
                if explores:
                    best[row][agent] = random_action
        return best

    def state_dict(self) -> dict[str, Any]:
        """State of values, mixer and encoder."""
        return {"values": self.values.state_dict(), "encoder": self.encoder.state_dict(), "agents": list(self.agents)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """The inverse of `state_dict`."""
        self.values.load_state_dict(state["values"])
        self.encoder.load_state_dict(state["encoder"])


Player = Callable[[str, Mapping[str, Any]], str]


def load_players(run: Path, env: TextEnv) -> dict[str, Callable[[], Player]]:
    """Agent -> factory of players: functions of (observation, info) that return its best action.

    A player keeps its conversation, so that each game needs a new one.

    Args:
        run: the folder of a run over legal actions.
        env: the environment to be played.

    Raises:
        CheckpointError: there is no such run, or it has no valid checkpoint.
        ConfigError: its config cannot be read.
    """
    refuse_no_run(run)
    config = parse_file(run / CONFIG)
    checkpoint_folder, _ = checkpoint.newest(run)
    state = checkpoint.load_updater(checkpoint_folder)
    if "team" not in state:
        raise CheckpointError(f"the run {str(run)!r} did not learn values of legal actions")
    team = ValueTeam(config, state["team"]["agents"], "cpu")
    team.load_state_dict(state["team"])
    fresh = env.metadata.get("conversation") == "fresh"
    return {agent: partial(_player, team, agent, fresh) for agent in team.agents}


def _player(team: ValueTeam, agent: str, fresh: bool) -> Player:
    conversation: Conversation = ()

    def play(observation: str, info: Mapping[str, Any]) -> str:
        nonlocal conversation
        conversation = with_observation(conversation, observation, fresh)
        legal: list[str] = list(info.get("legal_actions", ()))
        if not legal:
            return ""
        features = team.encoder.actions([(conversation, action) for action in legal])
        candidates = features[None, None].expand(1, len(team.agents), -1, -1)
        best = legal[int(team.values.values(candidates)[0, team.agents.index(agent)].argmax())]
        conversation = (*conversation, Message("assistant", best))
        return best

    return play
