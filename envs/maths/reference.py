"""Scripted agents for questions with one right answer.

`reference` is right, `muddler` errs, `lazy` is silent. Both solve the problems that are made here; `reference` also
knows the sample of `gsm8k-v0`. They play every role: the last line of the prompt is the instruction.
"""

from __future__ import annotations

import functools
import json
import random
import re

from palaver.core import Conversation, stable_seed
from palaver.envs.base.scripted import observed
from palaver.envs.maths import answers
from palaver.envs.maths.answers import HINT, question_of
from palaver.envs.maths.env import SAMPLE
from palaver.envs.maths.problems import apply, solve, way
from palaver.envs.workflows.builtin import CHOICE, VERDICT
from palaver.envs.workflows.prompts import MARK, NOTHING

ERRS = 0.2  # share of steps that a muddler gets wrong
FOLLOWS = 0.5  # share of answers for which it takes over another's
_QUOTED = re.compile(rf"(?:^{MARK}.*\n?)+|^{re.escape(NOTHING)}$", re.MULTILINE)


def reference(conversation: Conversation, _seed: int) -> str:
    """The right answer, verdict or choice.

    For a question that it cannot solve it is the answer that others gave, or "".
    """
    question_prompt, last_prompt = _read_prompts(conversation)
    right, rationale = _solved(question_of(question_prompt))
    quoted_texts = quotes(last_prompt)
    if last_prompt.endswith(VERDICT):
        return "APPROVE" if quoted_texts and answers.read(quoted_texts[-1]).key == right else "REJECT"
    if last_prompt.endswith(CHOICE):
        choice = next((n for n, text in enumerate(quoted_texts) if answers.read(text).key == right), 0)
        return f"#### {choice + 1}"
    return rationale or next((text for text in quoted_texts if answers.read(text).key), "")


def muddler(conversation: Conversation, seed: int) -> str:
    """Agent that gets a step wrong now and then.

    It follows others and judges them without looking.
    """
    question_prompt, last_prompt = _read_prompts(conversation)
    rng = random.Random(stable_seed("maths muddler", seed, *(message.content for message in conversation)))
    quoted_texts = [text for text in quotes(last_prompt) if answers.read(text).key]
    if last_prompt.endswith(VERDICT):
        return rng.choice(("APPROVE", "REJECT"))
    if last_prompt.endswith(CHOICE):
        return f"#### {rng.randint(1, max(1, len(quotes(last_prompt))))}"
    if quoted_texts and rng.random() < FOLLOWS:
        return rng.choice(quoted_texts)
    problem = solve(question_of(question_prompt))
    if problem is None:
        return ""
    total, results = problem.start, []
    for operator, operand in problem.steps:
        total = apply(total, operator, operand)
        if rng.random() < ERRS:
            total = max(0, total + rng.choice((-2, -1, 1, 2)))
        results.append(total)
    return way(problem, results)


def quotes(prompt: str) -> list[str]:
    """The texts of others that a prompt shows, in order; "" for an empty one."""
    return [
        "" if text == NOTHING else "\n".join(line.removeprefix(MARK) for line in text.splitlines())
        for text in _QUOTED.findall(prompt)
    ]


def _read_prompts(conversation: Conversation) -> tuple[str, str]:
    """The prompt that holds the question, and the newest prompt."""
    prompts_seen = observed(conversation)
    return (next((text for text in prompts_seen if HINT in text), ""), prompts_seen[-1]) if prompts_seen else ("", "")


def _solved(question: str) -> tuple[str, str]:
    """The key of the right answer, and a text that gives it; both "" where it is not known."""
    parsed = solve(question)
    if parsed is not None:
        results = parsed.results
        return str([parsed.start, *results][-1]), way(parsed, results)
    text = _known().get(question, "")
    return (answers.gold(text).key, text) if text else ("", "")


@functools.cache
def _known() -> dict[str, str]:
    rows = [json.loads(line) for line in SAMPLE.read_text(encoding="utf-8").splitlines()]
    return {row["question"].strip(): row["answer"] for row in rows}
