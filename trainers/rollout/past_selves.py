"""Episodes against past selves: a buffer of earlier weights, one drawn each step.

In a share of a step's tasks one agent is played by an earlier self, the agents taking turns, so that a policy meets
more than the one opponent that learns with it. What a past self says is not trained on.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from palaver.agents.base.policy import Policy
from palaver.agents.llm.policies.llm_policy import LLMPolicy
from palaver.core import stable_seed
from palaver.trainers.config.team import PastConfig

Placed = tuple[int, str]  # place of a task in the step, and the task
Weights = dict[str, Tensor]


class PastSelves:
    """Buffer of earlier weights of the trained policies.

    Args:
        config: share of tasks, and how often and how many weights are kept.
        policies: the trained policies, in this process; none if `config.share` is 0.
        seed: of the draws.
    """

    def __init__(self, config: PastConfig, policies: Sequence[LLMPolicy], seed: int) -> None:
        self.config, self.seed = config, seed
        self.policies = {policy.name: policy for policy in policies} if config.share else {}
        self.snapshots: list[tuple[int, dict[str, Weights]]] = []  # update, policy -> weights in host memory
        self._players: dict[str, LLMPolicy] = {}

    def take(self, step: int) -> None:
        """Keep the weights after update `step` where it is due, and forget the oldest."""
        if self.policies and step % self.config.every == 0:
            weights = {name: _weights(policy) for name, policy in self.policies.items()}
            self.snapshots = [*self.snapshots, (step, weights)][-self.config.keep :]

    def lineups(
        self, step: int, team: Mapping[str, Policy], tasks: Sequence[Placed], size: int
    ) -> list[tuple[Mapping[str, Policy], list[Placed]]]:
        """Teams of update `step`, each with the tasks that it plays, one or more.

        Args:
            step: number of the update.
            team: agent -> its policy now.
            tasks: tasks of this process, with their places in the step.
            size: tasks of the step over all processes; at least one is played by the present policies alone.
        """
        agents = [agent for agent, policy in team.items() if policy.name in self.policies]
        count = min(size - 1, int(self.config.share * size)) if self.snapshots else 0
        teams: dict[str, Mapping[str, Policy]] = {"": team}
        placed: dict[str, list[Placed]] = {}
        for place, task in tasks:
            agent = agents[(place + step) % len(agents)] if place < count else ""
            if agent not in teams:
                teams[agent] = {**team, agent: self._player(step, team[agent].name)}
            placed.setdefault(agent, []).append((place, task))
        return [(teams[agent], some) for agent, some in placed.items()]

    def state_dict(self) -> dict[str, Any]:
        """State that the next step depends on."""
        return {"past": [[step, weights] for step, weights in self.snapshots]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        self.snapshots = [(step, weights) for step, weights in state.get("past", [])]

    def _player(self, step: int, name: str) -> LLMPolicy:
        """Return the kept self drawn for update `step`; all are equally likely."""
        taken_at, weights = self.snapshots[stable_seed(self.seed, "past self", step, name) % len(self.snapshots)]
        policy = self.policies[name]
        if name not in self._players:
            self._players[name] = LLMPolicy(copy.deepcopy(policy.model), policy.tokenizer, policy.options)
        player = self._players[name]
        player.model.load_state_dict(weights[name])
        player.refresh()
        player.name = f"{name}@{taken_at}"
        return player


@torch.no_grad()
def _weights(policy: LLMPolicy) -> Weights:
    """A copy of the weights in host memory."""
    return {name: weight.detach().to("cpu", copy=True) for name, weight in policy.model.state_dict().items()}
