"""Scorers of workflow tasks: the protocol, and one that uses another environment."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from palaver.core import ConfigError, stable_seed
from palaver.envs.base.env import TextEnv
from palaver.envs.base.tasks import Task
from palaver.envs.workflows.graph import Workflow
from palaver.registry import make, spec


@dataclass(frozen=True, slots=True)
class Marks:
    """Scores of the answers of one turn.

    Attributes:
        scores: agent -> score, at most 1.
        metrics: measurements that are not reward.
        reason: why, in one line.
        unscored: True if what should have scored them failed.
    """

    scores: Mapping[str, float]
    metrics: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    unscored: bool = False


class Scorer(Protocol):
    """Asks and scores the questions that a workflow is about."""

    def question(self, task: Task, agent: str) -> str:
        """The question to an agent."""

    def score(self, task: Task, texts: Mapping[str, str]) -> Marks:
        """Score the answers (agent -> text) of one turn."""

    def key(self, text: str) -> str:
        """The answer in a text, equal for equal answers; "" if there is none."""

    def hide(self, text: str) -> str:
        """The text without its answer."""

    def formed(self, text: str) -> bool:
        """Return whether the answer is in the required form."""


class EnvScorer:
    """The task of another one-turn environment, scored by its reward over its upper bound.

    An environment with one agent scores each answer by itself; one with several scores the texts of its agents
    together, and every stage that answers must have exactly these speakers. The answer in a text is the text itself,
    white space aside, so that votes count texts that are equal.

    Args:
        env: id of the environment; made with `agents=1` where the workflow's answers are not by its agents.
        tasks: of it.
        keywords: more keywords of it.
        workflow: the workflow whose agents answer.

    Raises:
        ConfigError: agents that do not fit, an environment with more turns than one, or one without a positive reward.
        TaskError: tasks that cannot be read.
    """

    def __init__(self, env: str, tasks: Any, keywords: Mapping[str, Any], workflow: Workflow) -> None:
        self.inner, self.joint = _inner(env, {"tasks": tasks, **keywords}, workflow)
        self.agents: tuple[str, ...] = tuple(self.inner.possible_agents)
        trial = self.inner.fork()
        trial.reset(seed=0, options={"task": 0})
        trial.step({})
        if trial.agents:
            raise ConfigError(f"env={env!r} must end after one turn to be the task of a workflow")
        inner_max = self.inner.max_return
        self.max_return = spec(env).max_reward if inner_max is None else inner_max
        if self.max_return <= 0:
            raise ConfigError(f"env={env!r} has a maximum return of {self.max_return:g}; a score must be a share of it")

    def __deepcopy__(self, memo: dict[int, Any]) -> EnvScorer:
        twin = copy.copy(self)
        twin.inner = self.inner.fork()  # knows what its copies can share
        return twin

    def question(self, task: Task, agent: str) -> str:
        """The environment's prompt to that agent; all prompts for an agent that it does not have."""
        observations = self._reset(task)
        if not self.joint:
            return observations[self.agents[0]]
        return observations[agent] if agent in observations else "\n\n".join(observations.values())

    def score(self, task: Task, texts: Mapping[str, str]) -> Marks:
        """The environment's reward, as a share of its most."""
        if self.joint:
            return self._played(task, texts, self.agents)
        results = {agent: self._played(task, {self.agents[0]: text}, (agent,)) for agent, text in texts.items()}
        marks = list(results.values())
        names = [name for name in marks[0].metrics if all(name in mark.metrics for mark in marks)]
        return Marks(
            {agent: mark.scores[agent] for agent, mark in results.items()},
            {name: sum(mark.metrics[name] for mark in marks) / len(marks) for name in names},
            next((mark.reason for mark in marks if mark.reason), ""),
            any(mark.unscored for mark in marks),
        )

    def key(self, text: str) -> str:
        """The text, white space aside."""
        return " ".join(text.split())

    def hide(self, text: str) -> str:
        """Nothing of the text but its length."""
        return f"({len(text.split())} words, hidden)" if text.strip() else ""

    def formed(self, text: str) -> bool:
        """Return whether the text is not empty."""
        return bool(text.strip())

    def _reset(self, task: Task) -> dict[str, str]:
        seed = stable_seed("workflow", task.id) % 2**31
        return self.inner.reset(seed=seed, options={"task": task.id})[0]

    def _played(self, task: Task, texts: Mapping[str, str], agents: Sequence[str]) -> Marks:
        self._reset(task)
        _, rewards, _, _, infos = self.inner.step(texts)
        own_infos = list(infos.values())
        return Marks(
            {agent: float(rewards.get(agent, rewards[self.agents[0]])) / self.max_return for agent in agents},
            {name: value for name, value in own_infos[0]["metrics"].items() if name != "illegal"},
            str(own_infos[0].get("reason", "")),
            any(info.get("unscored", False) for info in own_infos),
        )


def _inner(env: str, keywords: Mapping[str, Any], workflow: Workflow) -> tuple[TextEnv, bool]:
    """Make the environment; the flag is True if its agents are those of the workflow's answers."""
    answering = {frozenset(stage.speakers) for stage in workflow.stages if stage.kind == "answer"}
    inner = make(env, **keywords)
    if not isinstance(inner, TextEnv):
        raise ConfigError(f"env={env!r} is not a palaver.envs.base.env.TextEnv, which a workflow can ask again")
    agents = list(inner.possible_agents)
    if len(agents) > 1 and answering == {frozenset(agents)} and not any(s.kind == "choice" for s in workflow.stages):
        return inner, True
    if len(agents) > 1 and "agents" in spec(env).keywords() and "agents" not in keywords:
        inner = make(env, **keywords, agents=1)
    if not isinstance(inner, TextEnv) or len(inner.possible_agents) != 1:
        raise ConfigError(
            f"env={env!r} has the agents {', '.join(agents)}: each stage of {workflow.name} that answers must have "
            f"exactly these speakers, or the environment one agent"
        )
    return inner, False
