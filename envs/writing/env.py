"""Base of the two writing environments: two texts, one turn, one reward for the team."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Literal

from palaver.core import ConfigError
from palaver.envs.base.env import StepResult, TextEnv
from palaver.envs.base.questions import InferenceQuestion, text_questions
from palaver.envs.base.tasks import Task
from palaver.envs.writing import reward, text
from palaver.envs.writing.text import SPLIT, paragraphs

SOLO = "writer"
Grammar = Literal["sample"] | None


class WritingEnv(TextEnv):
    """Two authors write one text each without seeing the other's, or `writer` alone writes both.

    Subclasses name the agents in the order of the texts, and write the prompt.
    """

    agent_names: ClassVar[tuple[str, str]]

    def __init__(
        self,
        tasks: tuple[Task, ...],
        agents: int,
        rubric: reward.WritingRewardConfig,
        *,
        grammar: re.Pattern[str] | None,
        source: str | Path,
        render_mode: str | None,
        max_length: int,
    ) -> None:
        if agents not in (1, 2) or isinstance(agents, bool):
            raise ConfigError(f"agents must be 2, or 1 for the single author, got {agents!r}")
        self.rubric = rubric
        self.max_return = sum(rubric.weights.values())
        self.grammar = grammar
        self.topic: frozenset[str] = frozenset()
        names = self.agent_names if agents == 2 else (SOLO,)
        super().__init__(names, tasks, render_mode=render_mode, max_length=max_length, source=source)

    @abstractmethod
    def prompt(self, agent: str, task: Task) -> str:
        """The first observation of `agent`."""

    @abstractmethod
    def subject(self, task: Task) -> str:
        """The text written about; it decides what is off topic."""

    def initial_observations(self, task: Task) -> dict[str, str]:
        """The first observation of each agent."""
        self.topic = text.topic_words(self.subject(task), self.rubric.ignored)
        return {agent: self.prompt(agent, task) for agent in self.agents}

    def questions(self, agent: str, actions: Mapping[str, str]) -> Sequence[InferenceQuestion]:
        """The text of the other author."""
        return text_questions(self.possible_agents, agent, actions)

    def transition(self, actions: Mapping[str, str]) -> StepResult:
        """Score both texts; all agents receive the same reward and the episode ends."""
        alone = actions.get(SOLO)
        texts = (actions[self.agent_names[0]], actions[self.agent_names[1]]) if alone is None else paragraphs(alone)
        facts = reward.facts(self.rubric, *texts)
        sentences = [text.sentences(answer) for answer in texts]
        repeated, off_topic = text.repeated_share(sentences), text.off_topic_share(sentences, self.topic)
        ill_formed = None if self.grammar is None else text.ill_formed_share(sentences, self.grammar)
        scored = reward.score(self.rubric, facts)
        parts = scored.gated if self.rubric.gated else scored.ungated
        metrics = {
            **{f"words_{agent}": float(n) for agent, n in zip(self.agent_names, facts.words, strict=True)},
            "characters_ratio": facts.ratio or 0.0,
            "unique_ratio": facts.unique or 0.0,
            "jaccard": facts.jaccard,
            "transition_kinds": float(len(facts.kinds)),
            "repeated_sentence_share": repeated,
            "off_topic_share": off_topic,
            "gated_total": sum(scored.gated.values()),
            "ungated_total": sum(scored.ungated.values()),
        }
        if ill_formed is not None:
            metrics["ill_formed_share"] = ill_formed
        if alone is not None:
            metrics["marker"] = float(SPLIT in alone)
        return StepResult(dict.fromkeys(self.agents, parts), terminated=True, metrics=metrics)


def read_grammar(grammar: Grammar, sample: Callable[[], re.Pattern[str]]) -> re.Pattern[str] | None:
    """Pattern of well-formed sentences: None, or that of the sample's imitation texts.

    Raises:
        ConfigError: another value.
    """
    if grammar not in (None, "sample"):
        raise ConfigError(f"grammar must be 'sample' or left out, got {grammar!r}")
    return sample() if grammar else None
