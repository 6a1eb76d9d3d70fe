"""Servers of OpenEnv: a session plays all agents of an environment, or one of them.

app = make_app("arxiv-v0")                       # an action has a message for every agent
app = make_app("arxiv-v0", agent="background")   # an action is the message of one agent
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, EnvironmentMetadata, Observation, State
from pydantic import Field

from palaver.benchmarks.doors.partners import DEFAULT_PARTNERS
from palaver.benchmarks.doors.single_agent import SingleAgentEnv
from palaver.core import Completion, TaskError
from palaver.envs.base.env import TextEnv
from palaver.registry import spec
from palaver.trainers.rollout.branches import Branch, begin, first_joint, step_all
from palaver.trainers.rollout.episodes import ready_env

MOST_SESSIONS = 16


class TeamAction(Action):  # type: ignore[misc]  # untyped
    """Messages of all agents that act; an agent without one is silent."""

    messages: dict[str, str] = Field(default_factory=dict, description="agent -> its text")


class TeamObservation(Observation):  # type: ignore[misc]  # untyped
    """Observations of all agents; `reward` is the mean over agents, `done` the end for all."""

    observations: dict[str, str] = Field(default_factory=dict, description="agent -> what is new for it")
    can_act: list[str] = Field(default_factory=list, description="agents that may act next")
    rewards: dict[str, float] = Field(default_factory=dict, description="agent -> reward of the turn")
    components: dict[str, dict[str, float]] = Field(default_factory=dict, description="agent -> parts of its reward")


class AgentAction(Action):  # type: ignore[misc]  # untyped
    """The message of the agent that is played."""

    message: str = Field(default="", description="its text")


class AgentObservation(Observation):  # type: ignore[misc]  # untyped
    """All that the agent has not answered yet; `reward` is the sum since its last action."""

    observation: str = Field(default="", description="what is new for the agent")
    components: dict[str, float] = Field(default_factory=dict, description="parts of the reward")


class TeamServer(Environment[TeamAction, TeamObservation, State]):  # type: ignore[misc]  # untyped
    """All agents of an environment.

    Args:
        env: is forked for every session.
        summary: of the environment.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, env: TextEnv, summary: str = "") -> None:
        super().__init__()
        self._env, self._summary = env.fork(), summary
        self._branch: Branch | None = None
        self._state = State()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, task: str | int | None = None, **_: Any
    ) -> TeamObservation:
        """Start an episode.

        Args:
            seed: of the environment.
            episode_id: is returned in the state.
            task: id or index; None draws one.

        Raises:
            TaskError: there is no such task.
        """
        branch = begin(self._env, *self._env.reset(seed=seed, options={"task": task}), seed=seed or 0)
        self._branch, self._state = branch, State(episode_id=episode_id, step_count=0, task=branch.task)
        return TeamObservation(observations=dict(branch.observations), can_act=_acting(branch), metadata=_about(branch))

    def step(self, action: TeamAction, timeout_s: float | None = None, **_: Any) -> TeamObservation:  # noqa: ARG002
        """Play a joint action.

        Raises:
            TaskError: before the first reset, after the end, or a message of an unknown agent.
        """
        branch = self._branch
        if branch is None or branch.stop:
            raise TaskError("there is no episode to act in; call reset first")
        if unknown := [agent for agent in action.messages if agent not in self._env.possible_agents]:
            raise TaskError(f"there is no agent {unknown[0]!r}; name {', '.join(self._env.possible_agents)}")
        answers = {a: [Completion(action.messages.get(a, ""))] for a in _acting(branch)}
        (self._branch,) = step_all([first_joint(branch, answers)])
        self._state.step_count += 1
        return self._observed(self._branch)

    def _observed(self, branch: Branch) -> TeamObservation:
        turn = branch.turns[-1]
        unscored = branch.stop == "unscored"
        return TeamObservation(
            observations=dict(branch.observations),
            can_act=[] if branch.stop else _acting(branch),
            rewards={} if unscored else dict(turn.rewards),
            components={} if unscored else {agent: dict(parts) for agent, parts in turn.components.items()},
            reward=None if unscored else turn.team_reward,
            done=branch.stop is not None,
            metadata={**_about(branch), "reason": turn.reason, "metrics": dict(turn.metrics), "stop": branch.stop},
        )

    @property
    def state(self) -> State:
        """Id of the episode, its task, and the number of turns."""
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        """Name, summary and version."""
        return _metadata(self._env, self._summary)

    def close(self) -> None:
        """Release what the environment holds."""
        self._env.close()


class AgentServer(Environment[AgentAction, AgentObservation, State]):  # type: ignore[misc]  # untyped
    """One agent of an environment, among partners.

    Args:
        make: builds the view of the agent.
        summary: of the environment.
    """

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self, make: Callable[[], SingleAgentEnv], summary: str = "") -> None:
        super().__init__()
        self._view, self._summary = make(), summary
        self._state = State()

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, task: str | int | None = None, **_: Any
    ) -> AgentObservation:
        """Start an episode, and play to the agent's first turn; see `TeamServer.reset`."""
        text, info = self._view.reset(seed=seed, options={"task": task})
        self._state = State(episode_id=episode_id, step_count=0, task=info["task_id"])
        return AgentObservation(observation=text, metadata={"task_id": info["task_id"], "role": info["role"]})

    def step(self, action: AgentAction, timeout_s: float | None = None, **_: Any) -> AgentObservation:  # noqa: ARG002
        """Act, and play to the agent's next turn or its end."""
        text, reward, terminated, truncated, info = self._view.step(action.message)
        self._state.step_count += 1
        unscored = bool(info.get("unscored"))
        return AgentObservation(
            observation=text,
            components={} if unscored else dict(info["reward_components"]),
            reward=None if unscored else reward,
            done=terminated or truncated,
            metadata={"task_id": info["task_id"], "role": info["role"], "truncated": truncated, "unscored": unscored},
        )

    @property
    def state(self) -> State:
        """Id of the episode, its task, and the number of actions."""
        return self._state

    def get_metadata(self) -> EnvironmentMetadata:
        """Name, summary and version."""
        return _metadata(self._view, self._summary)

    def close(self) -> None:
        """Release what the environment holds."""
        self._view.close()


def make_app(id: str, agent: str = "", partners: str = DEFAULT_PARTNERS, **keywords: Any) -> Any:
    """Application with OpenEnv's routes.

    Args:
        id: environment.
        agent: the agent that clients play; "" for all.
        partners: policies of the others, see `SingleAgentEnv`.
        keywords: of the environment.

    Raises:
        PalaverError: see `SingleAgentEnv`; the environment is made once at the start.
    """
    summary, name = spec(id).summary, spec(id).id
    if agent:
        SingleAgentEnv(id, agent, partners, **keywords).close()

        def one() -> AgentServer:
            return AgentServer(lambda: SingleAgentEnv(id, agent, partners, **keywords), summary)

        return create_app(one, AgentAction, AgentObservation, env_name=name, max_concurrent_envs=MOST_SESSIONS)
    env = ready_env(id, keywords)

    def joint() -> TeamServer:
        return TeamServer(env, summary)

    return create_app(joint, TeamAction, TeamObservation, env_name=name, max_concurrent_envs=MOST_SESSIONS)


def _acting(branch: Branch) -> list[str]:
    return [agent for agent in branch.env.agents if branch.can_act(agent)]


def _about(branch: Branch) -> dict[str, Any]:
    return {"task_id": branch.task, "roles": {agent: info.get("role", "") for agent, info in branch.infos.items()}}


def _metadata(env: TextEnv | SingleAgentEnv, summary: str) -> EnvironmentMetadata:
    name, _, version = str(env.metadata["name"]).rpartition("_v")
    return EnvironmentMetadata(name=name.replace("_", "-"), description=summary, version=version)
