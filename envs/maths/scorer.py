"""Questions with one right answer, as a workflow's scorer."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Literal

from palaver.envs.base.arguments import choice
from palaver.envs.base.tasks import Task
from palaver.envs.maths import answers, prompts
from palaver.envs.maths.equivalence import equivalent, require
from palaver.envs.workflows.scoring import Marks
from palaver.text import one_line

Verifier = Literal["exact", "math-verify"]


class MathsScorer:
    """1 for the right answer, else 0.

    Args:
        verifier: `exact` compares numbers as fractions and anything else word for word; `math-verify` calls that
            library as well where these differ, so that `2x + 2` and `2(x + 1)` are one answer.

    Raises:
        ConfigError: another verifier, or the library is not installed.
    """

    def __init__(self, verifier: Verifier = "exact") -> None:
        choice("verifier", verifier, ("exact", "math-verify"))
        self.symbolic = verifier == "math-verify"
        if self.symbolic:
            require()

    def question(self, task: Task, _agent: str) -> str:
        """The same question for every agent."""
        return prompts.opening(task["question"])

    def score(self, task: Task, texts: Mapping[str, str]) -> Marks:
        """Each answer by itself."""
        truth = _truth(task["answer"])
        parsed = {agent: answers.read(text) for agent, text in texts.items()}
        scores = {agent: float(self._right(answer, truth)) for agent, answer in parsed.items()}
        summary = ", ".join(f"{agent} {answer.key or 'nothing'}" for agent, answer in parsed.items())
        return Marks(scores, reason=one_line(f"right is {truth.key}; {summary}", 300))

    def key(self, text: str) -> str:
        """The number as an exact fraction, else the words that are marked."""
        return answers.read(text).key

    def hide(self, text: str) -> str:
        """The text without the number that it answers."""
        return answers.hidden(text)

    def formed(self, text: str) -> bool:
        """Return whether `####` or a box marks an answer."""
        answer = answers.read(text)
        return answer.marked and bool(answer.key)

    def _right(self, answer: answers.ParsedAnswer, truth: answers.ParsedAnswer) -> bool:
        if answers.right(answer, truth):
            return True
        return self.symbolic and bool(answer.raw) and equivalent(truth.raw, answer.raw)


@functools.lru_cache(maxsize=4096)
def _truth(text: str) -> answers.ParsedAnswer:
    return answers.gold(text)
