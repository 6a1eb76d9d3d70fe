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
from palaver.trainers.value_decomposition.encoders import told
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
    env: TextEnv, seats: Assignment, tasks: Sequence[str], *, epsilon: float, discount: float, seed: int
) -> RolloutResult:
    """Play one episode of every task.

    Args:
        env: is forked, never stepped itself.
        seats: policies of all agents.
        tasks: ids; a task may be listed more than once.
        epsilon: probability that an agent plays a random legal action in place of its best.
        discount: gamma, per turn.
        seed: seed of every draw.

    Raises:
        ConfigError: the encoder is a table, and it is full.
    """
    lives = [_begin(env, task, place, seed) for place, task in enumerate(tasks)]
    found: list[Transition] = []
    while live := [each for each in lives if each.stop is None]:
        _decide(live, seats, epsilon, seed, found)
        _answer(live, seats, seed)
        _step(live, seats.team.agents, discount, found)
        _go_on(live, seats.team, found)
    names = dict.fromkeys(seats.team.agents, "values") | {agent: p.name for agent, p in seats.partners.items()}
    name = env.metadata["name"]
    return RolloutResult([Episode(name, e.task, e.seed, tuple(e.turns), e.stop, names) for e in lives if e.stop], found)


def _begin(env: TextEnv, task: str, place: int, seed: int) -> _Live:
    own, task_seed = env.fork(), stable_seed(seed, "task", place, task)
    observations, infos = start(own, task, task_seed)
    live = _Live(own, task, task_seed, str(place), observations, infos, dict.fromkeys(env.possible_agents, ()))
    _hear(live)
    return live


def _hear(live: _Live) -> None:
    fresh = live.env.metadata.get("conversation") == "fresh"
    for agent, text in live.observations.items():
        live.conversations[agent] = hears(live.conversations[agent], text, fresh)


def _acts(live: _Live, agent: str) -> bool:
    return agent in (live.cut if live.stop else live.env.agents) and bool(live.infos[agent].get("can_act", True))


def _legal(live: _Live, agent: str) -> list[str]:
    return list(live.infos[agent].get("legal_actions", ())) if _acts(live, agent) else []


def _decide(live: Sequence[_Live], seats: Assignment, epsilon: float, seed: int, found: list[Transition]) -> None:
    """Let the team choose where it may act, and complete the transitions that lead here."""
    team = seats.team
    for each in live:
        each.completions = {}
    asked, decisions = _decisions(live, team)
    if not asked:
        return
    scenes = team.look(decisions)
    choices = team.choose(scenes, [decision_seed(seed, each.node) for each in asked], epsilon)
    for each, decision, scene, places in zip(asked, decisions, scenes, choices, strict=True):
        if each.open is not None:
            found.append(_closed(each.open, scene))
        each.open = _Open(scene, torch.tensor(places))
        for agent, offered, place in zip(team.agents, decision.legal, places, strict=True):
            if offered:
                each.completions[agent] = Completion(offered[place])


def _decisions(lives: Sequence[_Live], team: ValueTeam) -> tuple[list[_Live], list[TeamDecision]]:
    """Episodes in which the team may act, and their decisions."""
    asked, found = [], []
    for each in lives:
        legal = [_legal(each, agent) for agent in team.agents]
        if any(legal):
            state = "\n\n".join(f"[{agent}]\n{told(heard)}" for agent, heard in each.conversations.items() if heard)
            asked.append(each)
            found.append(TeamDecision(state, [each.conversations[agent] for agent in team.agents], legal))
    return asked, found


def _go_on(lives: Sequence[_Live], team: ValueTeam, found: list[Transition]) -> None:
    """Complete the transitions of episodes that were just cut, with the states after the cut."""
    asked, decisions = _decisions([each for each in lives if each.stop and each.open is not None], team)
    for each, scene in zip(asked, team.look(decisions) if decisions else (), strict=True):
        assert each.open is not None
        found.append(_closed(each.open, scene))


def _closed(begun: _Open, then: DecisionFeatures | None) -> Transition:
    goes_on = 0.0 if then is None else begun.factor
    return Transition(begun.scene, begun.chosen, begun.reward, goes_on, then or begun.scene)


def _answer(live: Sequence[_Live], seats: Assignment, seed: int) -> None:
    """Query the partners that may act, in one batch per policy."""
    asked: list[tuple[_Live, Policy, Request]] = []
    for each in live:
        for agent, policy in seats.partners.items():
            if _acts(each, agent):
                seeds = (stable_seed(seed, each.node, agent),)
                asked.append((each, policy, Request(agent, each.conversations[agent], seeds, seats.sampling[agent])))
    for (each, _, request), said in zip(asked, act_batched([(p, r) for _, p, r in asked]), strict=True):
        each.completions[request.agent] = said[0]


def _step(lives: Sequence[_Live], team: Sequence[str], discount: float, found: list[Transition]) -> None:
    """Play one joint action of each episode."""
    envs = [live.env for live in lives]
    actions = [
        {agent: live.completions[agent].text if agent in live.completions else None for agent in live.env.agents}
        for live in lives
    ]
    for live, said, step in zip(lives, actions, type(envs[0]).step_together(envs, actions), strict=True):
        _follow(live, list(said), step, team, discount, found)


def _follow(
    live: _Live, acting: Sequence[str], step: Step, team: Sequence[str], discount: float, found: list[Transition]
) -> None:
    """Update an episode with the result of a joint action."""
    env, everyone = live.env, live.env.possible_agents
    told_before = {agent: live.observations[agent] for agent in acting}
    observations, rewards, _, _, infos = step
    node = f"{live.node}/0"
    paid = {agent: float(rewards.get(agent, 0.0)) for agent in everyone}
    live.turns.append(
        Turn(
            len(live.turns),
            node,
            live.node if live.turns else "",
            live.node,
            dict.fromkeys(live.completions, 0),
            told_before,
            dict(live.completions),
            paid,
            {agent: dict(infos[agent]["reward_components"]) if agent in infos else {} for agent in everyone},
            dict(infos[acting[0]].get("metrics", {})),
            str(infos[acting[0]].get("reason", "")),
        )
    )
    for agent, said in live.completions.items():
        live.conversations[agent] = (*live.conversations[agent], Message("assistant", said.text))
    live.node, live.observations, live.infos = node, observations, infos
    if live.open is not None:
        live.open.reward += live.open.factor * sum(paid[agent] for agent in team) / len(team)
        live.open.factor *= discount
    live.stop, live.cut = ended(env.agents, acting, step)
    over = live.stop not in (None, "unscored") and not set(live.cut).intersection(team)
    if over and live.open is not None:
        found.append(_closed(live.open, None))
    if live.stop is None or live.cut:
        _hear(live)
