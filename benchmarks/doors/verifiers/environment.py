"""Tasksets and environments of verifiers, in which every agent is a role.

    PalaverTaskset, PalaverEnv = make_environment("arxiv-v0", length=[32, 64])

A package that exports both is found by `vf-eval NAME`; `palaver export verifiers` writes one.
"""

from __future__ import annotations

import asyncio
import types
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack
from typing import Any

import verifiers.v1 as vf
from pydantic import create_model

from palaver.benchmarks.doors.asynchronous import play_episode
from palaver.benchmarks.doors.verifiers.export import role_names
from palaver.core import Completion, PolicyError, Request, ScoringError
from palaver.envs.base.env import TextEnv
from palaver.envs.base.wrappers import rewarded
from palaver.episodes import Episode
from palaver.registry import spec
from palaver.text import without_surrogates
from palaver.trainers.config.run import EVAL_SEED
from palaver.trainers.rollout.episodes import text_env


class PalaverData(vf.TaskData):  # type: ignore[misc]  # untyped, as all bases here
    """A task: its id, and what the seed of the episode depends on."""

    place: int
    seed: int


class PalaverTask(vf.Task[PalaverData]):  # type: ignore[misc]
    """A task of a Palaver environment; the environment scores it."""


class PalaverTasksetConfig(vf.TasksetConfig):  # type: ignore[misc]
    """Settings of the tasks."""

    seed: int = EVAL_SEED


class EnvironmentTaskset(vf.Taskset[PalaverTask, PalaverTasksetConfig]):  # type: ignore[misc]
    """All tasks of an environment, in order."""

    env: TextEnv

    def load(self) -> Iterator[PalaverTask]:
        """Yield the tasks."""
        for place, task in enumerate(self.env.tasks):
            data = PalaverData(id=task.id, name=task.id, place=place, seed=self.config.seed)
            yield PalaverTask(data, self.config.task)


class EnvironmentPlay(vf.Env):  # type: ignore[misc]
    """Episodes of an environment; the reward of an agent's trace is its return."""

    env: TextEnv

    async def start(self) -> None:
        """Load the environment's judge or reward model."""
        if (judged := rewarded(self.env)) is not None:
            await asyncio.to_thread(judged.ready)

    async def run(self, task: Any, agents: Any) -> None:
        """Play one episode.

        Args:
            task: a task of the taskset.
            agents: agent -> its model.

        Raises:
            PolicyError: a model failed.
            ScoringError: the episode could not be scored.
        """
        roles = {agent: getattr(agents, agent) for agent in self.env.possible_agents}
        seats = {agent: Seat(agent, role, self.env) for agent, role in roles.items()}
        names = {agent: str(role.config.model) for agent, role in roles.items()}

        async def answer(requests: Sequence[Request]) -> list[Completion]:
            return await asyncio.gather(*(seats[request.agent].answer(request) for request in requests))

        try:
            async with AsyncExitStack() as stack:
                for seat in seats.values():
                    await seat.sit(stack)
                data = task.data
                episode = await play_episode(self.env, answer, data.id, names, seed=data.seed, place=data.place)
                if not episode.scored:  # in here, so that the traces fail too
                    raise ScoringError(f"the episode could not be scored: {episode.turns[-1].reason}")
            for seat in seats.values():
                seat.reward(episode)
        finally:  # a trace without a reward is none of 0
            for trace in (trace for seat in seats.values() for trace in seat.traces):
                trace.ok = trace.ok and bool(trace.rewards)


class Seat:
    """One agent in one episode: its conversation with its model, and the traces of it.

    Where observations stand alone, every turn is a conversation, with a trace of its own. An agent that has reached a
    limit of its role, as `max_turns`, is silent from then on.

    Args:
        agent: the agent.
        role: verifiers' agent.
        env: the environment.
    """

    def __init__(self, agent: str, role: Any, env: TextEnv) -> None:
        self.agent, self._role = agent, role
        self._fresh = env.metadata.get("conversation") == "fresh"
        self._open: Any = None
        self._silent = False
        self.traces: list[Any] = []

    def _interaction(self) -> Any:
        task = vf.Task(vf.TaskData(name=self.agent, prompt=None))
        return self._role.interaction(task, on_trace=self.traces.append)

    async def sit(self, stack: AsyncExitStack) -> None:
        """Open the conversation, which `stack` closes; no one where every turn is one."""
        if not self._fresh:
            self._open = await stack.enter_async_context(self._interaction())

    async def answer(self, request: Request) -> Completion:
        """Answer of the model to what is new in its conversation.

        Raises:
            PolicyError: the model failed.
        """
        if self._silent:
            return Completion("")
        text = without_surrogates(request.conversation[-1].content)
        if not self._fresh:
            return await self._turn(self._open, text)
        async with self._interaction() as interaction:
            return await self._turn(interaction, text)

    async def _turn(self, interaction: Any, text: str) -> Completion:
        segment = await interaction.turn(text)
        if not segment.terminated:
            texts = [each.content for each in segment.messages if each.role == "assistant"]
            return Completion(texts[-1] or "" if texts else "")
        if error := interaction.trace.last_error:
            raise PolicyError(f"the model of {self.agent} failed: {error.type}: {error.message}")
        self._silent = True
        return Completion("")

    def reward(self, episode: Episode) -> None:
        """Record the agent's return, its components and the end of the episode."""
        components: dict[str, float] = {}
        for turn in episode.turns:
            for name, value in turn.components[self.agent].items():
                components[name] = components.get(name, 0.0) + value
        for trace in self.traces:
            trace.record_reward("return", sum(turn.rewards[self.agent] for turn in episode.turns))
            trace.record_metrics({**components, "team_return": episode.team_return()})
            trace.info.update(task=episode.task, seed=episode.seed, stop=episode.stop)


def make_environment(id: str, **keywords: Any) -> tuple[type[EnvironmentTaskset], type[EnvironmentPlay]]:
    """Classes of an environment, for the `__all__` of a package.

    Agents chat without tools (`null`), in processes on this machine (`subprocess`), unless their settings differ.

    Args:
        id: environment.
        keywords: of the environment.

    Raises:
        ConfigError: no such environment or keyword, tools, or an agent whose name cannot be that of a setting.
        TaskError: the tasks cannot be read.
    """
    env = text_env(id, keywords)
    roles: dict[str, Any] = {agent: (vf.AgentConfig, _chat()) for agent in role_names(env, spec(id).id)}
    config = create_model("PalaverEnvConfig", __base__=vf.EnvConfig, **roles)
    taskset = type("PalaverTaskset", (EnvironmentTaskset,), {"env": env})
    played = types.new_class(
        "PalaverEnv", (EnvironmentPlay, vf.Env[config]), exec_body=lambda body: body.update(env=env)
    )
    return taskset, played


def _chat() -> Any:
    return vf.AgentConfig(harness={"id": "null"}, runtime={"type": "subprocess"})
