"""Rollouts of teams over legal actions: episodes in lockstep, values in one batch per turn."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from palaver.agents.base.policy import Policy, act_batched
from palaver.core import Completion, Conversation, Episode, Message, Request, Sampling, Stop, Turn, stable_seed
from palaver.envs.base.env import Step, TextEnv
from palaver.trainers.rollout.branches import start
from palaver.trainers.rollout.ends import ended
from palaver.trainers.value_decomposition.encoders import conversation_text
from palaver.trainers.value_decomposition.players import TeamDecision, ValueTeam, decision_seed, hears
from palaver.trainers.value_decomposition.replay import DecisionFeatures, Transition


@dataclass(slots=True)
class _Open:
    """A scene with an incomplete transition: the team has acted, and not yet decided again."""

    scene: DecisionFeatures
    chosen: torch.Tensor
    reward: float = 0.0
    factor: float = 1.0


@dataclass(slots=True)
class _Live:
    env: TextEnv
    task: str
    seed: int
    node: str
    observations: Mapping[str, str]
    infos: Mapping[str, Mapping[str, Any]]
    conversations: dict[str, Conversation]
    turns: list[Turn] = field(default_factory=list)
    open: _Open | None = None
    completions: dict[str, Completion] = field(default_factory=dict)
    stop: Stop | None = None
    cut: Collection[str] = ()  # the agents whose episode the last step cut


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
    lives = [_begin(env, task, index, seed) for index, task in enumerate(tasks)]
    transitions: list[Transition] = []
    while live := [episode for episode in lives if episode.stop is None]:
        _decide(live, assignment, epsilon, seed, transitions)
        _answer(live, assignment, seed)
        _step(live, assignment.team.agents, discount, transitions)
        _go_on(live, assignment.team, transitions)
    names = dict.fromkeys(assignment.team.agents, "values") | {
        agent: p.name for agent, p in assignment.partners.items()
    }
    name = env.metadata["name"]
    return RolloutResult(
        [Episode(name, e.task, e.seed, tuple(e.turns), e.stop, names) for e in lives if e.stop], transitions
    )


def _begin(env: TextEnv, task: str, index: int, seed: int) -> _Live:
    fork, task_seed = env.fork(), stable_seed(seed, "task", index, task)
    observations, infos = start(fork, task, task_seed)
    live = _Live(fork, task, task_seed, str(index), observations, infos, dict.fromkeys(env.possible_agents, ()))
    _read_observations(live)
    return live


def _read_observations(live: _Live) -> None:
    fresh = live.env.metadata.get("conversation") == "fresh"
    for agent, text in live.observations.items():
        live.conversations[agent] = hears(live.conversations[agent], text, fresh)


def _acts(live: _Live, agent: str) -> bool:
    return agent in (live.cut if live.stop else live.env.agents) and bool(live.infos[agent].get("can_act", True))


def _legal(live: _Live, agent: str) -> list[str]:
    return list(live.infos[agent].get("legal_actions", ())) if _acts(live, agent) else []


def _decide(
    live: Sequence[_Live], assignment: Assignment, epsilon: float, seed: int, transitions: list[Transition]
) -> None:
    """Let the team choose where it may act, and complete the transitions that lead here."""
    team = assignment.team
    for episode in live:
        episode.completions = {}
    acting, decisions = _decisions(live, team)
    if not acting:
        return
    scenes = team.look(decisions)
    choices = team.choose(scenes, [decision_seed(seed, episode.node) for episode in acting], epsilon)
    for episode, decision, scene, places in zip(acting, decisions, scenes, choices, strict=True):
        if episode.open is not None:
            transitions.append(_closed(episode.open, scene))
        episode.open = _Open(scene, torch.tensor(places))
        for agent, offered, choice in zip(team.agents, decision.legal, places, strict=True):
            if offered:
                episode.completions[agent] = Completion(offered[choice])


def _decisions(lives: Sequence[_Live], team: ValueTeam) -> tuple[list[_Live], list[TeamDecision]]:
    """Episodes in which the team may act, and their decisions."""
    acting, decisions = [], []
    for episode in lives:
        legal = [_legal(episode, agent) for agent in team.agents]
        if any(legal):
            state = "\n\n".join(
                f"[{agent}]\n{conversation_text(conversation)}"
                for agent, conversation in episode.conversations.items()
                if conversation
            )
            acting.append(episode)
            decisions.append(TeamDecision(state, [episode.conversations[agent] for agent in team.agents], legal))
    return acting, decisions


def _go_on(lives: Sequence[_Live], team: ValueTeam, transitions: list[Transition]) -> None:
    """Complete the transitions of episodes that were just cut, with the states after the cut."""
    acting, decisions = _decisions([episode for episode in lives if episode.stop and episode.open is not None], team)
    for episode, scene in zip(acting, team.look(decisions) if decisions else (), strict=True):
        assert episode.open is not None
        transitions.append(_closed(episode.open, scene))


def _closed(begun: _Open, then: DecisionFeatures | None) -> Transition:
    goes_on = 0.0 if then is None else begun.factor
    return Transition(begun.scene, begun.chosen, begun.reward, goes_on, then or begun.scene)


def _answer(live: Sequence[_Live], assignment: Assignment, seed: int) -> None:
    """Query the partners that may act, in one batch per policy."""
    requests: list[tuple[_Live, Policy, Request]] = []
    for episode in live:
        for agent, policy in assignment.partners.items():
            if _acts(episode, agent):
                seeds = (stable_seed(seed, episode.node, agent),)
                requests.append(
                    (episode, policy, Request(agent, episode.conversations[agent], seeds, assignment.sampling[agent]))
                )
    for (episode, _, request), completions in zip(requests, act_batched([(p, r) for _, p, r in requests]), strict=True):
        episode.completions[request.agent] = completions[0]


def _step(lives: Sequence[_Live], team: Sequence[str], discount: float, transitions: list[Transition]) -> None:
    """Play one joint action of each episode."""
    envs = [live.env for live in lives]
    actions = [
        {agent: live.completions[agent].text if agent in live.completions else None for agent in live.env.agents}
        for live in lives
    ]
    for live, action, step in zip(lives, actions, type(envs[0]).step_together(envs, actions), strict=True):
        _follow(live, list(action), step, team, discount, transitions)


def _follow(
    live: _Live, acting: Sequence[str], step: Step, team: Sequence[str], discount: float, transitions: list[Transition]
) -> None:
    """Update an episode with the result of a joint action."""
    env, everyone = live.env, live.env.possible_agents
    observed = {agent: live.observations[agent] for agent in acting}
    observations, rewards, _, _, infos = step
    node = f"{live.node}/0"
    own_rewards = {agent: float(rewards.get(agent, 0.0)) for agent in everyone}
    live.turns.append(
        Turn(
            len(live.turns),
            node,
            live.node if live.turns else "",
            live.node,
            dict.fromkeys(live.completions, 0),
            observed,
            dict(live.completions),
            own_rewards,
            {agent: dict(infos[agent]["reward_components"]) if agent in infos else {} for agent in everyone},
            dict(infos[acting[0]].get("metrics", {})),
            str(infos[acting[0]].get("reason", "")),
        )
    )
    for agent, completion in live.completions.items():
        live.conversations[agent] = (*live.conversations[agent], Message("assistant", completion.text))
    live.node, live.observations, live.infos = node, observations, infos
    if live.open is not None:
        live.open.reward += live.open.factor * sum(own_rewards[agent] for agent in team) / len(team)
        live.open.factor *= discount
    live.stop, live.cut = ended(env.agents, acting, step)
    over = live.stop not in (None, "unscored") and not set(live.cut).intersection(team)
    if over and live.open is not None:
        transitions.append(_closed(live.open, None))
    if live.stop is None or live.cut:
        _read_observations(live)
