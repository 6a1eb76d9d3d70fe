"""Base class of environments; authors write observations and rewards of joint actions.

    class Agree(TextEnv):
        def initial_observations(self, task):
            return {agent: f"Name a fruit: {task['hint']}" for agent in self.agents}

        def transition(self, actions):
            same = float(len(set(actions.values())) == 1)
            return StepResult({agent: {"same": same} for agent in self.agents}, terminated=True)

Everything else is here: seeding, choice of a task, hostile actions, PettingZoo's five dictionaries, transcripts, forks.
`docs/own-environment.md` shows a complete one.
"""

from __future__ import annotations

import copy
import functools
import math
import os
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Concatenate, ParamSpec, TypeVar, cast

import numpy as np
from gymnasium.utils import seeding
from pettingzoo import ParallelEnv

from palaver.core import ConfigError, TaskError, did_you_mean
from palaver.envs.base.exact import ExactGame
from palaver.envs.base.questions import InferenceQuestion
from palaver.envs.base.spaces import UnicodeText
from palaver.envs.base.tasks import Task
from palaver.envs.base.tools import ToolFunction
from palaver.text import clean, one_line

MAX_LENGTH = 16_384  # characters; about 4,000 tokens of English

P = ParamSpec("P")
T = TypeVar("T")
Step = tuple[dict[str, str], dict[str, float], dict[str, bool], dict[str, bool], dict[str, dict[str, Any]]]
Each = Callable[..., Iterable[Step]]  # `map`, or that of a pool of threads


@dataclass(frozen=True, slots=True)
class StepResult:
    """Result of a joint action, as an environment's `transition` returns it.

    Attributes:
        components: agent -> named parts of its reward; the reward is their sum. Needed for every live agent.
        observations: agent -> what is new for it; an agent left out observes nothing.
        terminated: True if the task is over for all, or the agents it is over for.
        truncated: the same for an end by an outer limit, that agents do not know of. Observations, `can_act` and
            `legal_actions` are then those of a task that continues: trainers estimate the value of the state after it.
        metrics: measurements that are not reward, the same for all; those of an episode at its last turn alone.
        illegal: how many moves broke the rules; added to the metric `illegal`. Given as agent -> number, or 0, `infos`
            also hold each agent's own, so that they can be counted by player.
        can_act: who may act next; None means everyone.
        reason: the reason for the reward, in one line; `infos` hold it.
        unscored: True if the scoring of this action failed. The episode ends for all, `infos` say so, and the
            trainers leave it out of its group: what could not be scored is not worth 0.
        turn_rewards: agent -> the named parts of each turn's reward, where that is known only at the end: they sum to
            the rewards of the episode. `infos` of the last turn hold it, and a rollout of chains books it turn by turn.
    """

    components: Mapping[str, Mapping[str, float]]
    observations: Mapping[str, str] = field(default_factory=dict)
    terminated: bool | Collection[str] = False
    truncated: bool | Collection[str] = False
    metrics: Mapping[str, float] = field(default_factory=dict)
    illegal: int | Mapping[str, int] = 0
    can_act: Collection[str] | None = None
    reason: str = ""
    unscored: bool = False
    turn_rewards: Mapping[str, Sequence[Mapping[str, float]]] | None = None

    def __post_init__(self) -> None:
        for agent, parts in self.components.items():
            if not isinstance(parts, Mapping):
                raise ConfigError(f"the components of {agent!r} are a {type(parts).__name__}; map names to numbers")
            for name, value in parts.items():
                _finite(f"the reward component {name!r} of {agent!r}", value)
            _finite(f"the reward of {agent!r}", sum(parts.values()))
        for name, value in self.metrics.items():
            _finite(f"the metric {name!r}", value)


def as_heard(action: object, max_length: int) -> tuple[str, bool]:
    """Convert any object to a text of at most `max_length` characters, and True if it was legal.

    None is an empty text and legal. Bytes are decoded, lone surrogates become `?`, a long text is cut, any other object
    becomes an empty text; all of these are illegal.

    >>> as_heard(b"hi", 10), as_heard(None, 10), as_heard("abc", 2)
    (('hi', False), ('', True), ('ab', False))
    """
    if action is None:
        return "", True
    if isinstance(action, bytes | bytearray):
        return bytes(action[: 4 * max_length]).decode("utf-8", "replace")[:max_length], False
    if not isinstance(action, str):
        return "", False
    cut = str.__str__(action)[:max_length]
    text = cut if cut.isascii() else cut.encode("utf-8", "replace").decode("utf-8")
    return text, len(action) <= max_length and text == cut


def locked(method: Callable[Concatenate[TextEnv, P], T]) -> Callable[Concatenate[TextEnv, P], T]:
    """One thread at a time in one instance."""

    @functools.wraps(method)
    def call(self: TextEnv, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            return method(self, *args, **kwargs)

    return cast("Callable[Concatenate[TextEnv, P], T]", call)


class TextEnv(ParallelEnv, ABC):  # type: ignore[misc]  # pettingzoo ships no types
    """PettingZoo parallel environment of texts.

    Subclasses write `initial_observations` and `transition`. In these hooks `agents` are the live agents, `task` the
    task, `turn` the number of steps so far, and `rng` the generator of the instance. Attributes that a subclass sets in
    them are its state, which `fork` copies. Optional attributes of a subclass or an instance:

    * `max_return`: upper bound of the episode return, as a mean over agents.
    * `first_to_act`: agents that act first, if not all do; `initial_observations` may set it.
    * `legal_actions`: agent -> its legal next actions, set before a hook returns; reported in `infos`.
    * `competitive`: whether agents compete with these keywords; None leaves it to the spec. The metric `outcome` of the
      last turn is 1 if the first agent has won, -1 if the second has, 0 for a tie.
    * `zero_sum`: the rewards of all agents, penalties for illegal answers aside, have a constant sum.
    * `shared_prompt_turns`: turns at which every episode of a task gives an agent the same prompt, if prompts depend on
      earlier completions; trainers compare answers between episodes at these turns only.

    Args:
        agents: names of the agents, in order.
        tasks: what a reset may be about; at least one.
        render_mode: `ansi` or None.
        max_length: maximum number of characters of observations and actions; longer ones are cut.
        source: of the tasks, for records.

    Raises:
        ConfigError: no agents, an agent twice, another render mode, a length below 1.
        TaskError: no tasks.
    """

    metadata: ClassVar[dict[str, Any]] = {
        "name": "text_v0",
        "render_modes": ["ansi"],
        "is_parallelizable": True,
        "conversation": "continued",
    }
    max_return: float | None = None
    first_to_act: Collection[str] | None = None
    legal_actions: Mapping[str, Sequence[str]] | None = None
    competitive: bool | None = None
    zero_sum: bool = False
    shared_prompt_turns: Collection[int] | None = None

    def __init__(
        self,
        agents: Sequence[str],
        tasks: Sequence[Task],
        *,
        render_mode: str | None = None,
        max_length: int = MAX_LENGTH,
        source: str | os.PathLike[str] = "",
    ) -> None:
        if not agents or len(set(agents)) != len(agents):
            raise ConfigError(f"an environment needs agents with different names, got {list(agents)}")
        if render_mode not in (None, *self.metadata["render_modes"]):
            raise ConfigError(
                f"render_mode={render_mode!r} is not offered; use None or {self.metadata['render_modes']}"
            )
        if isinstance(max_length, bool) or not isinstance(max_length, int) or max_length < 1:
            raise ConfigError(f"max_length must be a whole number of 1 or more, got {max_length!r}")
        if not tasks:
            raise TaskError("an environment needs at least one task")
        self.possible_agents: list[str] = list(agents)
        self.agents: list[str] = []
        self.tasks: tuple[Task, ...] = tuple(tasks)
        self._by_id = {task.id: task for task in reversed(self.tasks)}  # of two with one id the first counts
        self.source = os.fspath(source)
        self.render_mode = render_mode
        self.max_length = max_length
        self.task = self.tasks[0]
        self.turn = 0
        self.rng: np.random.Generator = seeding.np_random()[0]
        self.observation_spaces = {agent: UnicodeText(max_length) for agent in agents}
        self.action_spaces = {agent: UnicodeText(max_length) for agent in agents}
        self._acting: frozenset[str] = frozenset()
        self._log: list[tuple[str, str]] = []  # ("agent <", its observation), ("agent >", its action), ("$", rewards)
        self._lock = threading.RLock()

    @abstractmethod
    def initial_observations(self, task: Task) -> Mapping[str, str]:
        """Start `task`: set the state and return each agent's first observation."""

    @abstractmethod
    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """Apply the joint action, one clean text per live agent, "" for silence."""

    def role(self, agent: str) -> str:
        """Role of the agent, as reported in `infos`; its name unless overridden."""
        return agent

    def tools(self, agent: str) -> Sequence[ToolFunction]:  # noqa: ARG002 - for subclasses
        """Tools of the agent (`palaver.envs.base.tools`); none unless overridden."""
        return ()

    def questions(self, agent: str, actions: Mapping[str, str]) -> Sequence[InferenceQuestion]:  # noqa: ARG002
        """Questions about the others (`palaver.envs.base.questions`); none unless overridden."""
        return ()

    def exact_game(self) -> ExactGame | None:
        """The game as a whole, where it is small enough for exact values; None unless overridden."""
        return None

    def observation_space(self, agent: str) -> UnicodeText:
        """The same object on every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> UnicodeText:
        """The same object on every call."""
        return self.action_spaces[agent]

    @locked
    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """Start an episode.

        Args:
            seed: a new seed for this instance's generator; None keeps the present one.
            options: `{"task": id or index}` chooses the task; otherwise the generator draws one. Others are ignored.

        Raises:
            TaskError: there is no such task.
            ConfigError: `initial_observations` names an agent that does not exist.
        """
        if seed is not None:
            self.rng, _ = seeding.np_random(seed)
        chosen = (options or {}).get("task")
        self.task = self.tasks[int(self.rng.integers(len(self.tasks)))] if chosen is None else self._find(chosen)
        self.agents, self.turn, self._log = list(self.possible_agents), 0, []
        observations = self.initial_observations(self.task)
        first = self.agents if self.first_to_act is None else self.first_to_act
        self._acting = frozenset(self.agents).intersection(first)
        self._exist(observations, "initial_observations")
        return self._log_observations(observations, self.agents), {agent: self._info(agent) for agent in self.agents}

    @locked
    def step(self, actions: Mapping[str, Any]) -> Step:
        """Play one joint action; a missing agent, or an action of None, is an empty text.

        Returns:
            Observations, rewards, terminations, truncations and infos of the agents alive before the step; five empty
            dictionaries when the episode is over.
        """
        if not self.agents:
            return {}, {}, {}, {}, {}
        agents, texts, illegal = list(self.agents), {}, dict.fromkeys(self.agents, 0)
        for agent in agents:
            text, legal = as_heard(actions.get(agent), self.max_length)
            if agent not in self._acting:
                text, legal = "", not text and legal
            texts[agent] = text
            illegal[agent] += not legal
            self._log.append((f"{agent} >", text))
        outcome = self.transition(texts)
        self._known(outcome)
        self.turn += 1
        terminated = {agent: _includes(outcome.terminated, agent) for agent in agents}
        truncated = {agent: outcome.unscored or _includes(outcome.truncated, agent) for agent in agents}
        rewards = {agent: math.fsum(outcome.components[agent].values()) for agent in agents}
        self._log.append(("$", ", ".join(f"{agent} {rewards[agent]:g}" for agent in agents)))
        observations = self._log_observations(outcome.observations, agents)
        self.agents = [agent for agent in agents if not (terminated[agent] or truncated[agent])]
        on = [] if outcome.unscored else [agent for agent in agents if not terminated[agent]]
        self._acting = frozenset(on).intersection(on if outcome.can_act is None else outcome.can_act)
        metrics = {name: float(value) for name, value in outcome.metrics.items()}
        broke = outcome.illegal
        attributed = isinstance(broke, Mapping) or not broke  # a bare number does not say whose they were
        by_agent = {agent: broke.get(agent, 0) if isinstance(broke, Mapping) else 0 for agent in agents}
        moves = sum(broke.values()) if isinstance(broke, Mapping) else broke
        metrics["illegal"] = float(sum(illegal.values()) + moves)
        infos = {agent: self._info(agent) for agent in agents}
        for agent in agents:
            infos[agent]["reward_components"] = {k: float(v) for k, v in outcome.components[agent].items()}
            infos[agent]["metrics"] = dict(metrics)
            if attributed:
                infos[agent]["illegal"] = illegal[agent] + by_agent[agent]
            if outcome.reason:
                infos[agent]["reason"] = one_line(outcome.reason, 400)
            if outcome.unscored:
                infos[agent]["unscored"] = True
            if outcome.turn_rewards is not None:
                infos[agent]["turn_rewards"] = [dict(parts) for parts in outcome.turn_rewards[agent]]
        return observations, rewards, terminated, truncated, infos

    @classmethod
    def step_together(
        cls,
        envs: Sequence[TextEnv],
        actions: Sequence[Mapping[str, Any]],
        groups: Sequence[str] = (),  # noqa: ARG003 - for classes whose reward compares
        each: Each = map,
    ) -> list[Step]:
        """One step of each of several instances; overridden by classes that do many at once.

        Args:
            envs: of this class.
            actions: of each.
            groups: which of them are to be compared with each other, a key for each; none: nothing is.
            each: how single steps are called.
        """
        return list(each(lambda env, action: env.step(action), envs, actions))

    @locked
    def state(self) -> str:
        """Joint transcript so far: all observations and actions. The state of a centralised critic."""
        return self._lines(lambda mark: mark != "$")

    @locked
    def render(self) -> str | None:
        """With `render_mode="ansi"` the transcript with its rewards, safe to print; otherwise None."""
        if self.render_mode != "ansi":
            return None
        head = f"[{self.metadata['name']}, task {one_line(self.task.id)}, turn {self.turn}]"
        picture = f"{head}\n{self._lines(lambda _: True)}"
        return clean(picture, len(picture))

    def close(self) -> None:
        """Nothing to release unless a subclass holds something."""

    @locked
    def fork(self) -> TextEnv:
        """An independent copy in the same state, generator included; it shares the tasks."""
        return copy.deepcopy(self, {id(shared): shared for shared in (self.tasks, self._by_id)})

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    def _find(self, chosen: object) -> Task:
        if isinstance(chosen, int | np.integer) and not isinstance(chosen, bool):
            if not -len(self.tasks) <= chosen < len(self.tasks):
                raise TaskError(f"there is no task number {chosen}; this environment has {len(self.tasks)}")
            return self.tasks[int(chosen)]
        if isinstance(chosen, str) and chosen in self._by_id:
            return self._by_id[chosen]
        raise TaskError(f"there is no task {chosen!r}.{did_you_mean(str(chosen), list(self._by_id)[:1000])[:200]}")

    def _log_observations(self, observations: Mapping[str, str], agents: Sequence[str]) -> dict[str, str]:
        texts = {agent: as_heard(observations.get(agent), self.max_length)[0] for agent in agents}
        self._log += [(f"{agent} <", text) for agent, text in texts.items() if text]
        return texts

    def _info(self, agent: str) -> dict[str, Any]:
        can_act = agent in self._acting
        info: dict[str, Any] = {"role": self.role(agent), "task_id": self.task.id, "can_act": can_act}
        if self.legal_actions is not None:
            info["legal_actions"] = list(self.legal_actions.get(agent, ())) if can_act else []
        return info

    def _known(self, outcome: StepResult) -> None:
        """Say plainly what an environment's author forgot or misspelt."""
        if missing := [agent for agent in self.agents if agent not in outcome.components]:
            raise ConfigError(f"transition returned no reward components for {missing}; give each live agent a mapping")
        ends = (e for e in (outcome.terminated, outcome.truncated, outcome.can_act) if isinstance(e, Collection))
        self._exist([name for group in (*ends, outcome.observations) for name in group], "transition")

    def _exist(self, agents: Collection[str], hook: str) -> None:
        for agent in agents:
            if agent not in self.possible_agents:
                raise ConfigError(f"{hook} named an agent {agent!r}.{did_you_mean(str(agent), self.possible_agents)}")

    def _lines(self, keep: Callable[[str], bool]) -> str:
        # continued lines are indented, whatever breaks them, so that no text can pose as another agent's entry
        lines = (f"{mark} {text}" for mark, text in self._log if keep(mark.split(" ")[-1]))
        return "\n".join("\n    ".join(entry.splitlines()) for entry in lines)


def _finite(what: str, value: object) -> None:
    try:
        wrong = "" if math.isfinite(value) else str(value)  # type: ignore[arg-type]  # what is no number raises
    except TypeError:
        wrong = f"a {type(value).__name__}"
    except OverflowError:
        wrong = "too large"
    if wrong:
        raise ConfigError(f"{what} is {wrong}; give a finite number")


def _includes(group: bool | Collection[str], agent: str) -> bool:
    return group if isinstance(group, bool) else agent in group
