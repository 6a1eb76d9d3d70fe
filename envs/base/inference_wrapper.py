"""Wrapper that asks agents about each other and scores their answers by the truth.

    palaver.make("kuhn-v0", infer="before")                        # ask before each action, measure only
    palaver.make("build-mini-v0", infer={"alpha": 1.0})            # ask after each action, and reward good guesses
    palaver.make("matrix-v1", infer={"when": "before", "order": 2})

A guess is a turn of its own, so that its tokens are counted and trained as the agent's own. It reaches no other agent:
the observations of all other turns are those of the environment without questions, byte for byte.
"""

from __future__ import annotations

import copy
import math
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.utils import seeding

from palaver.core import ConfigError, did_you_mean, stable_seed
from palaver.envs.base.env import Each, Step, StepResult, TextEnv, as_heard, locked
from palaver.envs.base.exact import ExactGame
from palaver.envs.base.infer_spec import InferSpec, Parts, grade
from palaver.envs.base.questions import Guess, InferenceQuestion, read_guess, truth_of
from palaver.envs.base.reward_wrapper import RewardWrapper
from palaver.envs.base.tasks import Task
from palaver.envs.base.tools import ToolFunction
from palaver.text import one_line

COMPONENT = "inference"
_SAME = (  # what never changes in an environment that was made
    *("metadata", "first_to_act", "competitive", "zero_sum", "possible_agents", "tasks", "source"),
    *("render_mode", "max_length", "observation_spaces", "action_spaces"),
)


@dataclass(frozen=True, slots=True)
class _Asked:
    """An open question.

    `index` is its place among the agent's questions, -1 for one of second order, and `truth` is None if the agents have
    to act first.
    """

    question: InferenceQuestion
    index: int
    truth: Guess | None


class InferenceWrapper(TextEnv):
    """An environment whose agents are asked about each other.

    The metrics of guesses are `inference/accuracy`, and of choices `inference/brier_score`, `inference/log_score` and
    `inference/unreadable`; `inference/confidence/AGENT` and `inference/accuracy/AGENT` are single guesses, from which
    calibration is computed. Those of second order begin with `inference2`.

    Args:
        env: is played; it belongs to this one from here on.
        infer: the settings.
        turns: of an episode, where the environment does not define them.

    Raises:
        ConfigError: the environment has no questions, or there is no such agent.
    """

    _held: Step | None

    def __init__(self, env: TextEnv, infer: InferSpec, turns: int = 1) -> None:
        own = env.inner if isinstance(env, RewardWrapper) else env
        if type(own).questions is TextEnv.questions:
            raise ConfigError(
                f"{env.metadata['name']} has no questions about its agents: leave infer out, or override "
                "TextEnv.questions in an environment of your own"
            )
        for agent in infer.agents:
            if agent not in env.possible_agents:
                raise ConfigError(
                    f"infer.agents: there is no agent {agent!r}.{did_you_mean(agent, env.possible_agents)}"
                )
        self.inner, self.infer = env, infer
        self.__dict__.update({name: getattr(env, name) for name in _SAME})
        self.num_turns = int(getattr(env, "num_turns", turns)) * (1 + infer.order)
        self.max_return = None if env.max_return is None else env.max_return + infer.alpha * infer.most * self.num_turns
        self.shared_prompt_turns = self._shared_turns(env)
        self._lock = threading.RLock()
        self._draws: np.random.Generator = seeding.np_random()[0]
        self._begin()
        self.agents, self.task, self.turn, self.rng = list(env.agents), env.task, 0, env.rng

    def __getattr__(self, name: str) -> Any:
        """Whatever else the environment has."""
        if name.startswith("__") or "inner" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self.inner, name)

    # --- the environment's ------------------------------------------------------------------------

    def initial_observations(self, task: Task) -> Mapping[str, str]:
        """The environment's."""
        return self.inner.initial_observations(task)

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """The environment's."""
        return self.inner.transition(actions)

    def role(self, agent: str) -> str:
        """The environment's."""
        return self.inner.role(agent)

    def tools(self, agent: str) -> Sequence[ToolFunction]:
        """The environment's; none while the agent is asked."""
        return () if self._open else self.inner.tools(agent)

    def exact_game(self) -> ExactGame | None:
        """The environment's."""
        return self.inner.exact_game()

    def questions(self, agent: str, actions: Mapping[str, str]) -> Sequence[InferenceQuestion]:
        """The environment's."""
        return self.inner.questions(agent, actions)

    def state(self) -> str:
        """The environment's, followed by all questions and guesses."""
        return "\n".join(filter(None, (self.inner.state(), *self._notes)))

    @locked
    def render(self) -> Any:
        """The environment's picture; a text is followed by the guesses and their scores."""
        self.inner.render_mode = self.render_mode
        picture = self.inner.render()
        return "\n".join((picture, *self._notes)) if self.render_mode == "ansi" and picture is not None else picture

    def close(self) -> None:
        """The environment's."""
        self.inner.close()
        self._begin()
        self.agents = list(self.inner.agents)

    @locked
    def fork(self) -> InferenceWrapper:
        """An independent copy in the same state."""
        twin = copy.copy(self)
        twin.inner, twin._draws, twin._lock = self.inner.fork(), copy.deepcopy(self._draws), threading.RLock()
        twin.rng, twin.agents = twin.inner.rng, list(self.agents)
        return twin

    def __deepcopy__(self, memo: dict[int, Any]) -> InferenceWrapper:
        return self.fork()

    # --- the episode ------------------------------------------------------------------------------

    @locked
    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[str, str], dict[str, dict[str, Any]]]:
        """See `TextEnv.reset`; questions are drawn by a generator of their own, of the same seed."""
        observations, infos = self.inner.reset(seed, options)
        if seed is not None:
            self._draws = seeding.np_random(stable_seed("infer", seed) % 2**31)[0]
        self._begin()
        self.agents, self.task, self.turn, self.rng = list(self.inner.agents), self.inner.task, 0, self.inner.rng
        self._read(observations, infos)
        if self.infer.when == "before" and self._ask(self._movers, {}):
            self._held = (observations, {}, {}, {}, infos)
            return self._asking(observations), self._asking_infos(self.agents)
        return observations, infos

    @locked
    def step(self, actions: Mapping[str, Any]) -> Step:
        """See `TextEnv.step`."""
        return self.step_together([self], [actions])[0]

    @classmethod
    def step_together(
        cls,
        envs: Sequence[TextEnv],
        actions: Sequence[Mapping[str, Any]],
        groups: Sequence[str] = (),
        each: Each = map,
    ) -> list[Step]:
        """See `TextEnv.step_together`; environments whose agents are asked do not move."""
        wrappers = [env for env in envs if isinstance(env, InferenceWrapper)]
        moving = [n for n, env in enumerate(wrappers) if env.agents and not env._open]
        for n in moving:
            wrappers[n]._choose(actions[n])
        inner = [wrappers[n].inner for n in moving]
        keys = [groups[n] for n in moving] if groups else ()
        played = type(inner[0]).step_together(inner, [actions[n] for n in moving], keys, each) if inner else []
        steps = {n: wrappers[n]._moved(step) for n, step in zip(moving, played, strict=True)}
        return [
            steps[n] if n in steps else env._answered(actions[n]) if env.agents else ({}, {}, {}, {}, {})
            for n, env in enumerate(wrappers)
        ]

    # --- inside -----------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._open: Mapping[str, _Asked] = {}  # questions that are to be answered now
        self._order = 1  # of these
        self._given: Mapping[str, tuple[InferenceQuestion, Guess]] = {}  # guesses of order 1 of this round
        self._waiting: Mapping[str, tuple[_Asked, Guess]] = {}  # guesses whose truth the next actions are
        self._held = None  # of the environment, not yet observed
        self._movers: tuple[str, ...] = ()  # agents that act next in the environment
        self._newest: Mapping[str, str] = {}  # the last observation of each agent
        self._turns: tuple[Mapping[str, float] | None, ...] = ()  # rewards of guesses by turn; None: the environment's
        self._notes: tuple[str, ...] = ()

    def _read(self, observations: Mapping[str, str], infos: Mapping[str, Mapping[str, Any]]) -> None:
        self._newest = {**self._newest, **{agent: text for agent, text in observations.items() if text}}
        self._movers = tuple(agent for agent in self.inner.agents if infos[agent].get("can_act", True))

    def _choose(self, actions: Mapping[str, Any]) -> None:
        """Take the truth of a joint action that is about to be played, or ask about it."""
        texts = {agent: as_heard(actions.get(agent), self.max_length)[0] for agent in self.inner.agents}
        known = {agent: text if agent in self._movers else "" for agent, text in texts.items()}
        if self.infer.when == "after":
            self._ask(self._movers, known)
            return
        waiting = {}
        for agent, (asked, guess) in self._waiting.items():
            question = self.inner.questions(agent, known)[asked.index]
            if question.truth is not None:  # else an illegal answer was none that can be guessed
                waiting[agent] = (_Asked(question, asked.index, truth_of(question)), guess)
        self._waiting = waiting

    def _moved(self, step: Step) -> Step:
        """Result of a turn of the environment."""
        self.turn += 1
        acted = list(self.agents)
        observations, rewards, terminated, truncated, infos = step
        self._read(observations, infos)
        late, metrics = self._scored(self._waiting, 1)
        self._waiting = {}
        infos = {agent: dict(info) for agent, info in infos.items()}
        if late:
            for agent, info in infos.items():
                parts = {**info["reward_components"], COMPONENT: late.get(agent, 0.0)}
                info["reward_components"], info["metrics"] = parts, {**info["metrics"], **metrics}
            rewards = {agent: math.fsum(infos[agent]["reward_components"].values()) for agent in rewards}
        self._turns += (None,)
        unscored = any(info.get("unscored") for info in infos.values())
        if self.infer.when == "before" and not unscored:
            self._ask(tuple(a for a in self._movers if not (terminated[a] or truncated[a])), {})
        if unscored or not self._open:
            self._open, self.agents = {}, list(self.inner.agents)
            return observations, rewards, terminated, truncated, self._by_turn(infos)
        if self.infer.when == "before":
            self.agents = list(self.inner.agents)
            asked = {a: i | self._asking_infos([a])[a] for a, i in infos.items()}
            self._held = (observations, {}, {}, {}, infos)
            return self._asking(observations), rewards, terminated, truncated, asked
        self._held, over = (observations, rewards, terminated, truncated, infos), not self.inner.agents
        # the metrics of the last turn describe the episode: they stay with its last turn
        shown = {a: {k: v for k, v in info.items() if k != "turn_rewards"} for a, info in infos.items()}
        asked = {
            a: i | self._asking_infos([a])[a] | ({"metrics": {"illegal": i["metrics"]["illegal"]}} if over else {})
            for a, i in shown.items()
        }
        none = dict.fromkeys(acted, False)
        return self._asking({}, acted), rewards, none, dict(none), asked

    def _answered(self, actions: Mapping[str, Any]) -> Step:
        """Result of a turn of guesses."""
        assert self._held is not None
        self.turn += 1
        asked, order, agents = self._open, self._order, list(self.agents)
        answers = {agent: as_heard(actions.get(agent), self.max_length) for agent in agents}
        texts = {agent: text for agent, (text, _) in answers.items()}
        illegal = sum(not legal or (bool(text) and agent not in asked) for agent, (text, legal) in answers.items())
        guesses = {agent: (one, read_guess(texts[agent], one.question)) for agent, one in asked.items()}
        self._notes += tuple(
            f"{agent} ({one.question.about}?) > {one_line(texts[agent], 400)}" for agent, one in asked.items()
        )
        scores, metrics = self._scored({a: pair for a, pair in guesses.items() if pair[0].truth is not None}, order)
        rewards = {agent: scores.get(agent, 0.0) for agent in agents}
        self._turns += (rewards,)
        self._open = {}
        if order == 1:
            self._given = {agent: (one.question, guess) for agent, (one, guess) in guesses.items()}
            self._waiting = {a: pair for a, pair in guesses.items() if pair[0].truth is None}
            self._ask_again()
        infos = {
            agent: {
                "role": self.inner.role(agent),
                "task_id": self.task.id,
                "reward_components": {COMPONENT: rewards[agent]},
                "metrics": {"illegal": float(illegal), **metrics},
            }
            for agent in agents
        }
        if self._open:  # of second order
            none = dict.fromkeys(agents, False)
            infos = {agent: info | self._asking_infos([agent])[agent] for agent, info in infos.items()}
            return self._asking({}, agents), dict(rewards), none, dict(none), infos
        observations, _, terminated, truncated, held = self._held
        self._held, self.agents = None, list(self.inner.agents)
        last = not self.agents
        for agent, info in infos.items():
            later = {
                name: held[agent][name] for name in ("can_act", "legal_actions", "turn_rewards") if name in held[agent]
            }
            carried = held[agent]["metrics"] if last else {}  # it describes the episode
            infos[agent] = info | later | {"metrics": carried | metrics | {"illegal": float(illegal)}}
        false = dict.fromkeys(agents, False)
        observations = {agent: observations.get(agent, "") for agent in agents}
        return observations, dict(rewards), terminated or false, truncated or dict(false), self._by_turn(infos)

    def _ask(self, agents: Sequence[str], actions: Mapping[str, str]) -> bool:
        """Open one question of first order for each of these agents; return whether there is any."""
        asked = [agent for agent in agents if not self.infer.agents or agent in self.infer.agents]
        everyone = self.possible_agents
        shift = int(self._draws.integers(1, max(2, len(everyone))))  # everyone asks about another
        opened = {}
        for agent in asked:
            listed = enumerate(self.inner.questions(agent, actions))
            questions = [(n, question) for n, question in listed if question.truth is not None or not actions]
            other = everyone[(everyone.index(agent) + shift) % len(everyone)]
            fitting = [pair for pair in questions if pair[1].about == other] or questions
            if fitting:
                index, question = fitting[int(self._draws.integers(len(fitting)))]
                opened[agent] = _Asked(question, index, None if question.truth is None else truth_of(question))
        self._open, self._order = opened, 1
        return bool(opened)

    def _ask_again(self) -> None:
        """Open the questions of second order: the guess that another has just made about oneself."""
        self._order, opened = 2, {}
        for other, (first, guess) in self._given.items() if self.infer.order == 2 else ():
            if first.about in self._given and first.about not in opened and guess.readable:
                text = f"{other} was asked about you, {first.about}: {first.text} The answer of {other}?"
                opened[first.about] = _Asked(InferenceQuestion(other, text, first.kind, first.options), -1, guess)
        self._open = opened

    def _scored(self, guesses: Mapping[str, tuple[_Asked, Guess]], order: int) -> tuple[Parts, Parts]:
        """Rewards of guesses by agent, and their metrics."""
        given = {a: (one.question, guess, one.truth) for a, (one, guess) in guesses.items() if one.truth is not None}
        rewards, metrics = grade(given, self.infer, COMPONENT if order == 1 else f"{COMPONENT}{order}")
        self._notes += tuple(f"[{COMPONENT}, {agent}: {reward:g}]" for agent, reward in rewards.items())
        return rewards, metrics

    def _asking(self, observations: Mapping[str, str], everyone: Sequence[str] | None = None) -> dict[str, str]:
        """Observations of a turn of guesses: the question, after a text that was not read yet."""
        fresh = self.metadata.get("conversation") == "fresh"
        texts = dict.fromkeys(everyone if everyone is not None else observations, "")
        for agent, asked in self._open.items():
            before = self._newest.get(agent, "") if fresh else observations.get(agent, "")
            full_text = asked.question.full_text[: self.max_length]
            room = max(0, self.max_length - len(full_text) - 2)
            texts[agent] = "\n\n".join(filter(None, (before[:room], full_text)))
        return texts

    def _asking_infos(self, agents: Sequence[str]) -> dict[str, dict[str, Any]]:
        infos: dict[str, dict[str, Any]] = {}
        for agent in agents:
            asked = self._open.get(agent)
            infos[agent] = {"role": self.inner.role(agent), "task_id": self.task.id, "can_act": asked is not None}
            if asked is not None:
                infos[agent]["asked"] = True
            if asked is not None and asked.question.kind == "choice":
                infos[agent]["legal_actions"] = list(asked.question.options)
            elif self.inner.legal_actions is not None:
                infos[agent]["legal_actions"] = []
        return infos

    def _by_turn(self, infos: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
        """Infos whose rewards by turn, if given at the end, count turns of guesses too."""
        for agent, info in infos.items():
            if "turn_rewards" in info:
                own = iter(info["turn_rewards"])
                info["turn_rewards"] = [
                    dict(next(own)) if guessed is None else {COMPONENT: guessed.get(agent, 0.0)}
                    for guessed in self._turns
                ]
        return infos

    def _shared_turns(self, env: TextEnv) -> tuple[int, ...] | None:
        """Turns at which every episode of a task gives an agent the same prompt, questions counted."""
        alike = env.shared_prompt_turns
        return None if alike is None else tuple(turn * (1 + self.infer.order) for turn in alike)
