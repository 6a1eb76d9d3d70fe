"""Messages and scores of an episode, in Inspect's form."""

from __future__ import annotations

import json
import math
from typing import Any

from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageUser
from inspect_ai.scorer import Score, Scorer, Target, mean, scorer, stderr
from inspect_ai.solver import TaskState

from palaver.episodes import Episode
from palaver.text import without_surrogates

EPISODE = "episode"  # its key in the store of a sample; JSON text, for logs hold no lone surrogates


def task_name(id: str) -> str:
    """Name of an environment's task in Inspect, without the package.

    Characters that Inspect reads as a path are replaced, and the version is left out.
    """
    name, _, version = id.replace("/", "-").rpartition("-v")
    return name if name and version.isdecimal() else id


def messages_of(episode: Episode) -> list[ChatMessage]:
    """Observations and answers of all agents, turn by turn, each with the agent's name in front."""
    messages: list[ChatMessage] = []
    for turn in episode.turns:
        for agent, completion in turn.completions.items():
            about = {"agent": agent, "turn": turn.index}
            read = f"[{agent} reads]\n\n{without_surrogates(turn.observations.get(agent, ''))}"
            messages.append(ChatMessageUser(content=read, metadata=about))
            wrote = f"[{agent} writes]\n\n{without_surrogates(completion.text)}"
            rewarded = {"reward": turn.rewards[agent], "components": dict(turn.components[agent])}
            model = episode.team.get(agent)
            messages.append(ChatMessageAssistant(content=wrote, model=model, metadata={**about, **rewarded}))
    return messages


def scores_of(episode: Episode) -> dict[str, Score]:
    """Scorer -> score; empty if the episode could not be scored."""
    if not episode.scored:
        return {}
    agents = {agent: None for turn in episode.turns for agent in turn.rewards}
    returns = {agent: math.fsum(turn.rewards[agent] for turn in episode.turns) for agent in agents}
    components: dict[str, dict[str, float]] = {agent: {} for agent in agents}
    for turn in episode.turns:
        for agent, parts in turn.components.items():
            for name, value in parts.items():
                components[agent][name] = components[agent].get(name, 0.0) + value
    reasons = without_surrogates("\n".join(turn.reason for turn in episode.turns if turn.reason))
    about: dict[str, Any] = {"components": components, "stop": episode.stop}
    return {
        "team_return": Score(value=episode.team_return(), explanation=reasons or None, metadata=about),
        "agent_returns": Score(value=dict(returns)),
    }


def _score(state: TaskState, name: str) -> Score | None:
    return scores_of(Episode.from_dict(json.loads(state.store.get(EPISODE)))).get(name)


@scorer(metrics=[mean(), stderr()])  # type: ignore[untyped-decorator]
def team_return() -> Scorer:
    """Mean over agents of the return; none for an episode that could not be scored."""

    async def score(state: TaskState, _: Target) -> Score | None:
        return _score(state, "team_return")

    return score


@scorer(metrics={"*": [mean(), stderr()]})  # type: ignore[untyped-decorator]
def agent_returns() -> Scorer:
    """Return of each agent, likewise."""

    async def score(state: TaskState, _: Target) -> Score | None:
        return _score(state, "agent_returns")

    return score
