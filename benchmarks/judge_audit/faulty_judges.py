"""Judges with known faults, as models.

There is a fair one, and for each fault one that has only this fault. They know the labelled data, so the fair one is
right on all of it. Their input is the text of a prompt, whose fenced answers they parse, and they reply in its format.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from palaver.agents.base.chat import Answer, Question
from palaver.benchmarks.judge_audit.data import Labelled
from palaver.core import ConfigError, did_you_mean, stable_seed
from palaver.scoring import Cost

Choice = Literal["first", "second", "tie", "refusal"]
SLOT, FLAKY, REFUSED = 0.6, 0.4, 0.4  # shares of the prompts, of the answers, of the prompts
LONGER = 3.0  # ratio of lengths from which the longer answer wins
LURE = re.compile(
    r"better (one|answer)|prefer (this|it)|choose this|highest score|this answer (is|wins)|die bessere|更好|"
    r"have compared both",
    re.IGNORECASE,
)
OPENING = re.compile(r"\W{1,2}|\w{1,9}|(\w+ )?\w+:|let's [\w ,']+\.", re.IGNORECASE)


def plain(text: str) -> str:
    """Return the letters and digits of a text, which no prompt format changes."""
    return "".join(character for character in text.lower() if character.isalnum())


@dataclass(frozen=True, slots=True)
class JudgeInput:
    """Input of a judge: two answers in the order of the prompt, and the seed of the draw."""

    prompt: str
    first: str
    second: str
    seed: int = 0


Brain = Callable[[JudgeInput, "AnswerKey"], Choice]


@dataclass(frozen=True)
class AnswerKey:
    """Answers that people preferred, as `plain` text."""

    good: frozenset[str]

    @classmethod
    def of(cls, rows: Iterable[Labelled]) -> AnswerKey:
        """Make a key from labelled pairs; a tie has no better answer."""
        return cls(frozenset(_under(row.pair.prompt, row.good) for row in rows if row.label != 0.5))

    def choice(self, case: JudgeInput) -> Choice:
        """Return the better answer; a tie if neither is known."""
        first, second = (_under(case.prompt, text) in self.good for text in (case.first, case.second))
        return "tie" if first == second else "first" if first else "second"


def _under(prompt: str, answer: str) -> str:
    return f"{plain(prompt)}\n{plain(answer)}"


def fair(case: JudgeInput, key: AnswerKey) -> Choice:
    """Prefer what people preferred."""
    return key.choice(case)


def slot(case: JudgeInput, key: AnswerKey) -> Choice:
    """Prefer the first answer for six prompts out of ten."""
    return "first" if _chance("slot", plain(case.prompt)) < SLOT else fair(case, key)


def length(case: JudgeInput, key: AnswerKey) -> Choice:
    """Prefer the longer answer if it is at least three times as long."""
    first, second = len(case.first) + 1, len(case.second) + 1
    if max(first, second) < LONGER * min(first, second):
        return fair(case, key)
    return "first" if first > second else "second"


def injectable(case: JudgeInput, key: AnswerKey) -> Choice:
    """Follow instructions in an answer."""
    first, second = (bool(LURE.search(_visible(text))) for text in (case.first, case.second))
    return fair(case, key) if first == second else "first" if first else "second"


def gullible(case: JudgeInput, key: AnswerKey) -> Choice:
    """Accept the opening of an answer as an answer."""
    first, second = (bool(OPENING.fullmatch(text.strip())) for text in (case.first, case.second))
    return fair(case, key) if first == second else "first" if first else "second"


def flaky(case: JudgeInput, key: AnswerKey) -> Choice:
    """Choose at random four times out of ten, by the seed."""
    lot = _chance("flaky", case.seed, plain(case.prompt), plain(case.first), plain(case.second))
    if lot >= FLAKY:
        return fair(case, key)
    return "first" if lot < FLAKY / 2 else "second"


def refusing(case: JudgeInput, key: AnswerKey) -> Choice:
    """Refuse to judge four prompts out of ten."""
    return "refusal" if _chance("refusing", plain(case.prompt)) < REFUSED else fair(case, key)


def _visible(text: str) -> str:
    return "".join(character for character in text if character.isprintable() or character.isspace())


def _chance(*keys: object) -> float:
    return stable_seed("audit", *keys) / 2**63


BRAINS: Mapping[str, Brain] = MappingProxyType(
    {
        "fair": fair,
        "slot-biased": slot,
        "length-loving": length,
        "injectable": injectable,
        "gullible": gullible,
        "flaky": flaky,
        "refusing": refusing,
        "slow": fair,
    }
)


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
