"""Rollouts of teams over legal actions: episodes in lockstep, values in one batch per turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch

from palaver.agents.base.policy import Policy
from palaver.core import Completion, Request, Sampling, stable_seed
from palaver.envs.base.env import Step, TextEnv
from palaver.episodes import Episode
from palaver.trainers.rollout.branches import Branch, Joint, first_joint
from palaver.trainers.rollout.episodes import EpisodeRunner, Queries, StepAll, complete, record, starts
from palaver.trainers.value_decomposition.encoders import conversation_text
from palaver.trainers.value_decomposition.players import TeamDecision, ValueTeam
from palaver.trainers.value_decomposition.replay import DecisionFeatures, Transition


@dataclass(slots=True)
class _Open:
    """A scene with an incomplete transition: the team has acted, and not yet decided again."""

    scene: DecisionFeatures
    chosen: torch.Tensor
    reward: float = 0.0
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class RolloutResult:
    """Result of a rollout: an episode for each task, and the team's transitions for the replay.

    A joint step that was cut leads to the state after the cut, with its legal actions. One that could not be scored, or
    was cut where none of the team could act, has no target and is left out.
    """

    episodes: list[Episode]
    transitions: list[Transition]


@dataclass(frozen=True, slots=True)
class Assignment:
    """Policies of all agents.

    Attributes:
        team: values of the trained agents.
        partners: policies of the other agents.
        sampling: agent -> sampling parameters of a partner.
    """

    team: ValueTeam
    partners: Mapping[str, Policy] = field(default_factory=dict)
    sampling: Mapping[str, Sampling] = field(default_factory=dict)


def play(
    env: TextEnv, assignment: Assignment, tasks: Sequence[str], *, epsilon: float, discount: float, seed: int
) -> RolloutResult:
    """Play one episode of every task.

    Args:
        env: is forked, never stepped itself.
        assignment: policies of all agents.
        tasks: ids; a task may be listed more than once.
        epsilon: probability that an agent plays a random legal action in place of its best.
        discount: gamma, per turn.
        seed: seed of every draw.

    Raises:
        ConfigError: the encoder is a table, and it is full.
    """
    players = _Players(assignment, epsilon, discount, seed)
    ends = EpisodeRunner(players.play_turn, players.on_step, compare=False).run_all(starts(env, tasks, seed))
    names = dict.fromkeys(assignment.team.agents, "values") | {
        agent: p.name for agent, p in assignment.partners.items()
    }
    return RolloutResult([record(branch, names) for branch in ends], players.transitions)


class _Players:
    """All agents of a rollout, and the transitions of the team.

    Args:
        assignment: policies of all agents.
        epsilon: see `play`.
        discount: see `play`.
        seed: see `play`.
    """

    def __init__(self, assignment: Assignment, epsilon: float, discount: float, seed: int) -> None:
        self.team, self.partners, self.sampling = assignment.team, assignment.partners, assignment.sampling
        self.epsilon, self.discount, self.seed = epsilon, discount, seed
        self.transitions: list[Transition] = []
        self.open: dict[str, _Open] = {}  # by the root of the episode

    def play_turn(self, live: list[Branch], step_all: StepAll) -> list[Branch]:
        """Play one joint action of each episode, and complete the transitions of those that it cuts."""
        chosen = self.decide(live)
        answered = complete(live, self.queries)
        stepped = step_all(
            [
                first_joint(branch, {**chosen.get(branch.root, {}), **answers})
                for branch, answers in zip(live, answered, strict=True)
            ]
        )
        acting, decisions = self.decisions([branch for branch in stepped if branch.stop and branch.root in self.open])
        for branch, scene in zip(acting, self.team.look(decisions) if decisions else (), strict=True):
            self.transitions.append(_closed(self.open[branch.root], scene))
        return stepped

    def decide(self, live: Sequence[Branch]) -> dict[str, dict[str, list[Completion]]]:
        """Let the team choose where it may act, and complete the transitions that lead here."""
        acting, decisions = self.decisions(live)
        if not acting:
            return {}
        scenes = self.team.look(decisions)
        seeds = [stable_seed(self.seed, "explore", branch.node) for branch in acting]
        choices = self.team.choose(scenes, seeds, self.epsilon)
        chosen: dict[str, dict[str, list[Completion]]] = {}
        for branch, decision, scene, places in zip(acting, decisions, scenes, choices, strict=True):
            if branch.root in self.open:
                self.transitions.append(_closed(self.open[branch.root], scene))
            self.open[branch.root] = _Open(scene, torch.tensor(places))
            chosen[branch.root] = {
                agent: [Completion(offered[choice])]
                for agent, offered, choice in zip(self.team.agents, decision.legal, places, strict=True)
                if offered
            }
        return chosen

    def decisions(self, branches: Sequence[Branch]) -> tuple[list[Branch], list[TeamDecision]]:
        """Episodes in which the team may act, and their decisions."""
        acting, decisions = [], []
        for branch in branches:
            legal = [
                list(branch.infos[agent].get("legal_actions", ())) if branch.can_act(agent) else []
                for agent in self.team.agents
            ]
            if any(legal):
                state = "\n\n".join(
                    f"[{agent}]\n{conversation_text(conversation)}"
                    for agent, conversation in branch.conversations.items()
                )
                acting.append(branch)
                conversations = [branch.conversations[agent] for agent in self.team.agents]
                decisions.append(TeamDecision(state, conversations, legal))
        return acting, decisions

    def queries(self, branch: Branch) -> Queries:
        """Requests to the partners that may act."""
        for agent, policy in self.partners.items():
            if branch.can_act(agent):
                seeds = (stable_seed(self.seed, branch.node, agent),)
                conversation, answered = branch.conversations[agent], branch.answered(agent)
                yield policy, Request(agent, conversation, seeds, self.sampling[agent], answered=answered)

    def on_step(self, joint: Joint, step: Step, branch: Branch) -> Branch:  # noqa: ARG002 - the runner's signature
        """Add the team's reward to its last decision; complete its transition at the end."""
        turn, begun, agents = branch.turns[-1], self.open.get(branch.root), self.team.agents
        if begun is not None:
            begun.reward += begun.factor * sum(turn.rewards[agent] for agent in agents) / len(agents)
            begun.factor *= self.discount
            if branch.stop not in (None, "unscored") and not turn.cut_states.keys() & set(agents):
                self.transitions.append(_closed(begun, None))
        # an episode of values does not list the actions, which belong to its scenes
        recorded = replace(turn, legal={}, executed={}, illegal={})
        return replace(branch, turns=(*branch.turns[:-1], recorded))


def _closed(begun: _Open, then: DecisionFeatures | None) -> Transition:
    goes_on = 0.0 if then is None else begun.factor
    return Transition(begun.scene, begun.chosen, begun.reward, goes_on, then or begun.scene)
