"""Judges with known faults: a fair one, and for each fault one that has only this fault.

They know the labelled data, so the fair one is right on all of it. Their input is text, as that of a model.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from palaver.benchmarks.judge_audit.data import Labelled
from palaver.core import stable_seed

Choice = Literal["first", "second", "tie", "refusal"]
SLOT, FLAKY, REFUSED = 0.6, 0.4, 0.4  # shares of the prompts, of the answers, of the prompts
LONGER = 3.0  # ratio of lengths from which the longer answer wins
PULL = re.compile(
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
    first, second = (bool(PULL.search(_visible(text))) for text in (case.first, case.second))
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
