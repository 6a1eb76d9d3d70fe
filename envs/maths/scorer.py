"""Questions with one right answer, as a workflow's scorer, and their prompts.

The tiny model imitates answers to these very words: a change bumps the version.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from palaver.envs.base.tasks import Task
from palaver.envs.maths import answers
from palaver.envs.workflows.scoring import Marks
from palaver.text import one_line

HINT = "End with #### and the answer."


class MathsScorer:
    """1 for the right answer, else 0: numbers are compared as fractions, anything else word for word."""

    def question(self, task: Task, _agent: str) -> str:
        """The same question for every agent."""
        return opening(task["question"])

    def score(self, task: Task, texts: Mapping[str, str]) -> Marks:
        """Each answer by itself."""
        truth = _truth(task["answer"])
        parsed = {agent: answers.read(text) for agent, text in texts.items()}
        scores = {agent: float(answers.right(answer, truth)) for agent, answer in parsed.items()}
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


@functools.lru_cache(maxsize=4096)
def _truth(text: str) -> answers.ParsedAnswer:
    return answers.gold(text)


def opening(question: str) -> str:
    """The question, and how its answer is to be marked."""
    return f"{question.strip()}\n{HINT}"


def question_of(prompt: str) -> str:
    """The question of the prompt that `opening` wrote; "" where it wrote none."""
    before, hint, _ = prompt.partition(f"\n{HINT}")
    return before if hint else ""
