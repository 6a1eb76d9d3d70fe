"""Wrapper that changes an environment's reward by a judge or reward model.

The reward is replaced, extended or gated.

    palaver.make("arxiv-v0", reward="judge:FILE.yaml")            # the score is the whole reward
    palaver.make("arxiv-v0", reward="+0.5*judge:FILE.yaml")       # added to the environment's own, with weight 0.5
    palaver.make("arxiv-v0", reward="gate@0.8:judge:FILE.yaml")   # queried only where the own reward is 0.8 or more
    palaver.make("housebuild-v0", reward="iou,+rm:FOLDER")        # the environment's own choice of reward comes first

Everything else is the environment's: tasks, observations, turns, states, pictures.
"""

from __future__ import annotations

import copy
import math
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from palaver import plugins
from palaver.core import ConfigError
from palaver.envs.base.env import Each, Step, StepResult, TextEnv, as_heard, locked
from palaver.envs.base.questions import InferenceQuestion
from palaver.envs.base.reward_monitor import RewardMonitor
from palaver.envs.base.tasks import Task
from palaver.envs.base.tools import ToolFunction
from palaver.scoring import Reward, RewardPlacement, Score, ScoringRequest
from palaver.text import clean, one_line

_SPELLING = re.compile(
    r"(?:(?P<own>[\w.-]+),)?(?:(?P<added>\+)|gate@(?P<gate>-?[\d.]+):)?(?:(?P<weight>[\d.]+)\*)?(?P<name>.+)",
    re.DOTALL,
)
_MODEL = re.compile(r"(judge|rm):.+", re.DOTALL)

_SAME = (  # what never changes in an environment that was made
    *("metadata", "first_to_act", "competitive", "shared_prompt_turns", "possible_agents", "tasks", "source"),
    *("render_mode", "max_length", "observation_spaces", "action_spaces"),
)


@dataclass(frozen=True, slots=True)
class RewardSpec:
    """ParsedTasks keyword `reward` of `palaver.make`.

    Attributes:
        name: of the reward, as `judge:SPEC`.
        own: the environment's own value of its keyword `reward`, "" for its default.
        placement: as spelled; None leaves it to the reward.
        reward: where it was given itself, and not by name.
    """

    name: str
    own: str = ""
    placement: RewardPlacement | None = None
    reward: Reward | None = None


def parse_reward(reward: object) -> RewardSpec | None:
    """Parse a keyword `reward`; None if it is no `Reward` and no name of one.

    A name is `judge:SPEC`, `rm:PATH`, one that an installed package adds, or `module:attribute`.

    Raises:
        ConfigError: a weight or a gate that is no number.

    >>> parse_reward("+0.5*judge:hf:NAME").placement
    RewardPlacement(own='added', weight=0.5, gate=0.0, when='each')
    >>> parse_reward("iou") is None
    True
    """
    if isinstance(reward, Reward):
        return RewardSpec(reward.name, reward=reward)
    match = _SPELLING.fullmatch(reward.strip()) if isinstance(reward, str) else None
    if match is None or not _is_reward(match["name"]):
        return None
    plus, gate, weight = match["added"], match["gate"], match["weight"]
    if not (plus or gate or weight):
        return RewardSpec(match["name"], match["own"] or "")
    role: Literal["replaced", "added", "gate"] = "added" if plus else "gate" if gate else "replaced"
    placement = RewardPlacement(role, _parse_float(weight or "1", "weight"), _parse_float(gate or "0", "gate"))
    return RewardSpec(match["name"], match["own"] or "", placement)


def _is_reward(name: str) -> bool:
    source = name.partition("?")[0]
    return _MODEL.fullmatch(name) is not None or source in plugins.installed("rewards") or plugins.is_code(source)


def _parse_float(text: str, what: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"the {what} {text!r} of the reward is no number, as in +0.5*judge:SPEC") from None


@dataclass(frozen=True, slots=True)
class _InnerStep:
    """Step result of the inner environment, with the case to be scored; None if there is none."""

    step: Step
    own_reward: float  # mean over agents
    case: ScoringRequest | None


class RewardWrapper(TextEnv):
    """An environment with another reward.

    An action that the reward could not score is *unscored*: the episode ends, `infos` say so and why. The metric `own`
    is the environment's own reward as a mean over agents, `gate` is 1 if it was enough, else 0, `judge/NAME` is the
    score of a criterion.

    Args:
        env: is played; it belongs to this one from here on.
        reward: scores its joint actions, all that wait in one call; forks share it.
        placement: how the score enters; None takes the reward's own, by default to replace.
        turns: of an episode, where the environment does not define them.
        most: upper bound of the episode return, where the environment does not define it.
    """

    def __init__(
        self,
        env: TextEnv,
        reward: Reward,
        placement: RewardPlacement | None = None,
        turns: int = 1,
        most: float = math.inf,
    ) -> None:
        self.inner = env
        self.reward = reward
        self.placement: RewardPlacement = placement or getattr(reward, "placement", None) or RewardPlacement()
        self.component: str = getattr(reward, "component", "judge")
        self.watch = RewardMonitor(reward)
        self.__dict__.update({name: getattr(env, name) for name in _SAME}, max_return=self._max_return(turns, most))
        self._lock = threading.RLock()
        self._histories: Mapping[str, str] = {}  # all observations of each agent so far
        self._may: frozenset[str] = frozenset()  # who may act
        self._scores: tuple[float, ...] = ()  # the score's weighted reward of each turn
        self._notes: tuple[str, ...] = ()  # the same, as `render` shows it
        self._mirror()

    def __getattr__(self, name: str) -> Any:
        """Whatever else the environment has."""
        if name.startswith("__") or "inner" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.inner, name)

    def ready(self) -> None:
        """Load what the reward needs, so that a mistake shows before work is lost.

        Raises:
            PalaverError: it cannot be loaded.
        """
        getattr(self.reward, "ready", _nothing)()

    def score_with(self, reward: Reward) -> None:
        """Replace the reward by another of the same name.

        Its model is then loaded once for several instances.
        """
        self.reward, self.watch = reward, RewardMonitor(reward)

    def measured(self) -> dict[str, float]:
        """Cost and failures of scoring since the last call, for all forks together."""
        return self.watch.measured()

    # --- the environment's ------------------------------------------------------------------------

    def initial_observations(self, task: Task) -> Mapping[str, str]:
        """The environment's."""
        return self.inner.initial_observations(task)

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """The environment's, with its own reward."""
        return self.inner.transition(actions)

    def role(self, agent: str) -> str:
        """The environment's."""
        return self.inner.role(agent)

    def tools(self, agent: str) -> Sequence[ToolFunction]:
        """The environment's."""
        return self.inner.tools(agent)

    def questions(self, agent: str, actions: Mapping[str, str]) -> Sequence[InferenceQuestion]:
        """The environment's."""
        return self.inner.questions(agent, actions)

    @locked
    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """See `TextEnv.reset`."""
        observations, infos = self.inner.reset(seed, options)
        self._histories, self._scores, self._notes = {}, (), ()
        self._listen(observations, infos)
        return observations, infos

    @locked
    def step(self, actions: Mapping[str, Any]) -> Step:
        """See `TextEnv.step`; the action is scored alone.

        Raises:
            ScoringError: too many actions could not be scored.
        """
        return self.step_together([self], [actions])[0]

    @classmethod
    def step_together(
        cls,
        envs: Sequence[TextEnv],
        actions: Sequence[Mapping[str, Any]],
        groups: Sequence[str] = (),
        each: Each = map,
    ) -> list[Step]:
        """See `TextEnv.step_together`.

        All joint actions are scored in one call, those of one group with each other.

        Raises:
            ScoringError: too many actions could not be scored.
        """
        wrappers = [env for env in envs if isinstance(env, RewardWrapper)]
        if not wrappers:
            return []
        requests = [env._scoring_request(action) for env, action in zip(wrappers, actions, strict=True)]
        inner = [env.inner for env in wrappers]
        steps = type(inner[0]).step_together(inner, actions, groups, each)
        keys = groups or [""] * len(wrappers)
        inner_steps = [
            env._record_step(case, step, key)
            for env, case, step, key in zip(wrappers, requests, steps, keys, strict=True)
        ]
        waiting = [index for index, one in enumerate(inner_steps) if one.case is not None]
        verdicts: dict[int, Score] = {}
        for watch in {id(wrappers[index].watch): wrappers[index].watch for index in waiting}.values():
            indices = [index for index in waiting if wrappers[index].watch is watch]
            scores = watch.score([case for index in indices if (case := inner_steps[index].case) is not None])
            verdicts |= dict(zip(indices, scores, strict=True))
        return [
            env._settle(one, verdicts.get(index))
            for index, (env, one) in enumerate(zip(wrappers, inner_steps, strict=True))
        ]

    def state(self) -> str:
        """The environment's."""
        return self.inner.state()

    @locked
    def render(self) -> Any:
        """The environment's picture; a text is followed by the scores and their reasons."""
        self.inner.render_mode = self.render_mode
        picture = self.inner.render()
        return "\n".join((picture, *self._notes)) if self.render_mode == "ansi" and picture is not None else picture

    def close(self) -> None:
        """The environment's."""
        self.inner.close()
        self._mirror()

    @locked
    def fork(self) -> RewardWrapper:
        """An independent copy in the same state, with the same reward."""
        twin = copy.copy(self)
        twin.inner = self.inner.fork()
        twin._mirror()
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> RewardWrapper:
        return self.fork()

    # --- inside -----------------------------------------------------------------------------------

    def _max_return(self, turns: int, inner_max: float) -> float:
        """Upper bound of the episode return; inf if the reward declares none."""
        num_scores = 1 if self.placement.when == "last" else int(getattr(self.inner, "num_turns", turns))
        judged = self.placement.weight * float(getattr(self.reward, "most", math.inf)) * num_scores
        if self.placement.own != "added":
            return judged
        return judged + (inner_max if self.inner.max_return is None else self.inner.max_return)

    def _mirror(self) -> None:
        inner = self.inner
        self.agents, self.task, self.turn, self.rng = list(inner.agents), inner.task, inner.turn, inner.rng

    def _listen(self, observations: Mapping[str, str], infos: Mapping[str, Mapping[str, Any]]) -> None:
        """Update the observations, the acting agents and the state from the inner environment."""
        histories = {} if self.metadata.get("conversation") == "fresh" else dict(self._histories)
        for agent, text in observations.items():
            histories[agent] = "\n\n".join(filter(None, (histories.get(agent, ""), text)))
        self._histories = histories
        self._may = frozenset(agent for agent in self.inner.agents if infos[agent].get("can_act", True))
        self._mirror()

    def _scoring_request(self, actions: Mapping[str, Any]) -> ScoringRequest:
        """Scoring request of a joint action that is about to be played; without a group."""
        completions = {a: as_heard(actions.get(a), self.max_length)[0] for a in self.inner.agents if a in self._may}
        prompts = {agent: self._histories.get(agent, "") for agent in completions}
        return ScoringRequest(
            self.task.id, prompts, completions, self.turn, reference=str(self.task.data.get("reference", ""))
        )

    def _record_step(self, case: ScoringRequest, step: Step, group: str) -> _InnerStep:
        """Record the inner step; the result holds a case if the reward is to be queried."""
        observations, rewards, _, _, infos = step
        if not rewards:
            return _InnerStep(step, 0.0, None)
        self._listen(observations, infos)
        own_reward = math.fsum(rewards.values()) / len(rewards)
        unscored = any(info.get("unscored") for info in infos.values())
        early = self.placement.when == "last" and bool(self.inner.agents)
        shut = self.placement.own == "gate" and own_reward < self.placement.gate
        return _InnerStep(step, own_reward, None if unscored or early or shut else replace(case, group=group))

    def _settle(self, inner_step: _InnerStep, verdict: Score | None) -> Step:
        """The step result with the rewards of this turn."""
        observations, rewards, terminated, truncated, infos = inner_step.step
        if not rewards or any(info.get("unscored") for info in infos.values()):
            return inner_step.step
        failed = verdict is not None and verdict.score is None
        reward = self.placement.weight * verdict.score if verdict and verdict.score is not None else 0.0
        self._scores += (reward,)
        measured = self._measured(inner_step, verdict)
        reason = _reason(verdict)
        if verdict is not None:
            self._notes += (f"[{self.component}, turn {self.turn}: {reward:g}] {clean(reason)}",)
        metrics = {}
        for agent, info in infos.items():
            parts = self._parts(info["reward_components"], reward, failed)
            metrics[agent] = {**info, "reward_components": parts, "metrics": {**info["metrics"], **measured}}
            if reason:
                metrics[agent]["reason"] = one_line("; ".join(filter(None, (info.get("reason", ""), reason))), 400)
            if failed:
                metrics[agent]["unscored"] = True
            if "turn_rewards" in info:
                metrics[agent]["turn_rewards"] = [
                    self._parts(parts, score, failed)
                    for parts, score in zip(info["turn_rewards"], self._scores, strict=True)
                ]
        if failed:
            self.inner.agents = []
            self.agents, truncated = [], dict.fromkeys(truncated, True)
        paid_to = {agent: math.fsum(info["reward_components"].values()) for agent, info in metrics.items()}
        return observations, paid_to, terminated, truncated, metrics

    def _parts(self, own_rewards: Mapping[str, float], reward: float, failed: bool) -> dict[str, float]:
        """The components of a reward, given the environment's own."""
        if failed or self.placement.own != "added":
            return {self.component: 0.0 if failed else reward}
        name = f"outer_{self.component}" if self.component in own_rewards else self.component
        return {**own_rewards, name: reward}

    def _measured(self, inner_step: _InnerStep, verdict: Score | None) -> dict[str, float]:
        """Metrics of the scores, in addition to the reward."""
        metrics = {} if self.placement.own == "added" else {"own": inner_step.own_reward}
        if self.placement.own == "gate":
            metrics["gate"] = float(inner_step.own_reward >= self.placement.gate)
        if verdict is not None:
            metrics |= {f"{self.component}/{name}": float(value) for name, value in verdict.criteria.items()}
            metrics |= {name: float(value) for name, value in verdict.metrics.items()}
        return metrics


def _reason(verdict: Score | None) -> str:
    if verdict is None:
        return ""
    return one_line(verdict.reason if verdict.score is not None else f"not scored: {verdict.failure}", 400)


def _nothing() -> None:
    """A reward that needs no preparation."""
