"""Roles in which other policies than the agents' own answer their questions about each other (`team.inference`).

In an episode a question is a turn of the agent that is asked, whoever answers it. For training such a turn is one of
the agent's role, whose rewards are those of the agent: a role differs from its agent by its policy alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeVar

from palaver.agents.base.policy import Policy
from palaver.episodes import Episode, Turn
from palaver.trainers.config.team import inference_role
from palaver.trainers.rollout.branches import Branch

V = TypeVar("V")


def answering(branch: Branch, agent: str, team: Mapping[str, Policy]) -> Policy:
    """Policy that gives the agent's next text: where it is asked, that of its role, if the team has one."""
    return team.get(inference_role(agent), team[agent]) if branch.asked(agent) else team[agent]


def roles_in(team: Mapping[str, object], agents: Iterable[str]) -> list[str]:
    """Roles of these agents that the team has."""
    return [role for role in map(inference_role, agents) if role in team]


def by_role(episode: Episode) -> Episode:
    """Episode in which answers to questions are those of roles; the same one if its team has none.

    Every role has the rewards of its agent, so that means over agents are as before.
    """
    agents = episode.turns[0].rewards if episode.turns else ()
    if not roles_in(episode.team, agents):
        return episode
    return replace(episode, turns=tuple(map(_renamed, episode.turns)))


def _renamed(turn: Turn) -> Turn:
    roles = {agent: inference_role(agent) for agent in turn.rewards}
    asked = {agent: roles[agent] for agent in turn.asked}

    def moved(values: Mapping[str, V]) -> dict[str, V]:
        return {asked.get(agent, agent): value for agent, value in values.items()}

    def doubled(values: Mapping[str, V]) -> dict[str, V]:
        return {**values, **{role: values[agent] for agent, role in roles.items() if agent in values}}

    return replace(
        turn,
        choice=moved(turn.choice),
        completions=moved(turn.completions),
        rewards=doubled(turn.rewards),
        cut_states=doubled(turn.cut_states),
    )
