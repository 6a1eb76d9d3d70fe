"""Scripted judges as models, which parse a prompt's fenced answers and reply in its format."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from palaver.agents.base.chat import Answer, Question
from palaver.benchmarks.judge_audit.brains import BRAINS, AnswerKey, JudgeInput
from palaver.core import ConfigError, did_you_mean
from palaver.scoring import Cost

FENCE = re.compile(
    r"<(?P<kind>said|told)-(?P<mark>[0-9a-f]{16})[^>\n]*>\n(?P<text>.*?)\n</(?P=kind)-(?P=mark)>", re.DOTALL
)
REFUSAL = "I would rather not judge this."
WAIT = 0.5  # seconds of the slow judge per batch of questions
CHARACTERS = 4  # of a token, for the account


class ScriptedJudgeChat:
    """A scripted judge as a chat model.

    Args:
        kind: of `BRAINS`.
        key: the preferred answers.
        sleep: called with the delay of the slow judge.

    Raises:
        ConfigError: there is no such kind.
    """

    revision = "1"

    def __init__(self, kind: str, key: AnswerKey, sleep: Callable[[float], None] = time.sleep) -> None:
        if kind not in BRAINS:
            raise ConfigError(f"there is no scripted judge {kind!r}.{did_you_mean(kind, BRAINS)}")
        self.name, self.kind = f"scripted:{kind}", kind
        self._brain, self._key, self._sleep = BRAINS[kind], key, sleep

    def ask(self, questions: Sequence[Question]) -> list[Answer]:
        """Return one answer per question, in order."""
        if self.kind == "slow":
            self._sleep(WAIT)
        return [self._one(question) for question in questions]

    def _one(self, question: Question) -> Answer:
        text = "\n".join(message.content for message in question.conversation)
        case = self._judge_input(text, question.seed)
        choice = self._brain(case, self._key)
        read = Cost(prompt_tokens=len(text) // CHARACTERS, calls=1)
        if choice == "refusal":
            return Answer("", cost=read, failure=f"refusal: {REFUSAL}")
        answer = json.dumps(_filled(question.schema, choice))
        return Answer(answer, cost=read + Cost(completion_tokens=len(answer) // CHARACTERS))

    def _judge_input(self, text: str, seed: int) -> JudgeInput:
        """Return the two answers of a prompt, or the only one and an empty one."""
        fenced = [(match["kind"], match["text"]) for match in FENCE.finditer(text)]
        prompts = [text for kind, text in fenced if kind == "told"]
        answers = [text for kind, text in fenced if kind == "said"] + ["", ""]
        return JudgeInput(prompts[-1] if prompts else "", answers[0], answers[1], seed)


def _filled(schema: Mapping[str, Any], choice: str) -> dict[str, Any]:
    """Return an object that fits the schema: the choice if allowed, else the best or worst."""
    return {name: _value(value_schema, choice) for name, value_schema in schema.get("properties", {}).items()}


def _value(schema: Mapping[str, Any], choice: str) -> Any:
    menu = schema.get("enum")
    if menu:
        return choice if choice in menu else menu[-1 if choice == "first" else 0]
    if schema.get("type") == "object":
        return _filled(schema, choice)
    if schema.get("type") == "number":
        return {"first": 1.0, "tie": 0.5}.get(choice, 0.0)
    return f"By the script it is {choice}."
