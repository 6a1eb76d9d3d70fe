"""Settings of the keyword `infer`, and the rewards and metrics of guesses under them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from pydantic import Field, ValidationError

from palaver.core import ConfigError, did_you_mean
from palaver.envs.base.questions import (
    MOST_OPTIONS,
    Guess,
    InferenceQuestion,
    accuracy,
    brier_score,
    chance_score,
    log_score,
    overlap,
)
from palaver.text import first_fault, one_line
from palaver.utils.config import Section

Parts = dict[str, float]


class InferSpec(Section):
    """Keyword `infer` of `palaver.make`.

    Attributes:
        when: ask `before` agents act, or `after`, when they have chosen and do not know the outcome.
        alpha: weight of the reward for a guess, `alpha * (score - baseline)`; 0 measures only.
        score: of stated probabilities: `brier`, the quadratic score, or `log`; slots and texts have their overlap.
        baseline: is subtracted from a score; None is that of equal probabilities, and 0 for slots and texts.
        order: 1 asks about the other; 2 also asks, in a further turn, what the other has just guessed about oneself.
        agents: are asked; none: all.
    """

    when: Literal["before", "after"] = "after"
    alpha: float = Field(0.0, ge=0)
    score: Literal["brier", "log"] = "brier"
    baseline: float | None = None
    order: Literal[1, 2] = 1
    agents: tuple[str, ...] = ()

    @property
    def most(self) -> float:
        """Upper bound of a guess's score less its baseline."""
        if self.baseline is not None:
            return max(0.0, 1.0 - self.baseline)
        return math.log(MOST_OPTIONS) if self.score == "log" else 1.0


def parse_infer(value: object) -> InferSpec | None:
    """Parse the keyword `infer`: true, `before`, `after`, or a mapping; None for false and null.

    Raises:
        ConfigError: something else, or a setting that does not fit.

    >>> parse_infer("before").when, parse_infer({"alpha": 0.5}).alpha, parse_infer(False)
    ('before', 0.5, None)
    """
    if value is None or value is False:
        return None
    given = {} if value is True else {"when": value} if isinstance(value, str) else value
    if not isinstance(given, Mapping):
        raise ConfigError(
            f"infer must be true, before, after or a mapping of settings, got {one_line(repr(value), 60)}"
        )
    try:
        return InferSpec.model_validate(dict(given))
    except ValidationError as error:
        unknown = [str(name) for name in given if name not in InferSpec.model_fields]
        hint = did_you_mean(unknown[0], InferSpec.model_fields) if unknown else ""
        raise ConfigError(f"infer: {first_fault(error)}.{hint}") from None


def grade(
    guesses: Mapping[str, tuple[InferenceQuestion, Guess, Guess]], infer: InferSpec, prefix: str
) -> tuple[Parts, Parts]:
    """Rewards of guesses by agent, `alpha * (score - baseline)`, and metrics of all of them.

    Args:
        guesses: agent -> its question, its answer and the truth.
        infer: the settings.
        prefix: of the metrics' names.
    """
    rewards: Parts = {}
    single: Parts = {}
    found: dict[str, list[float]] = {}
    for agent, (question, guess, truth) in guesses.items():
        right = accuracy(guess, truth, question.kind)
        if question.kind == "choice":
            scores = {"brier": brier_score(guess, truth), "log": log_score(guess, truth)}
            score = scores[infer.score]
            single[f"{prefix}/confidence/{agent}"] = guess.confidence
            found.setdefault("log_score", []).append(scores["log"])
            found.setdefault("brier_score", []).append(scores["brier"])
            found.setdefault("unreadable", []).append(float(not guess.readable))
        else:
            score = overlap(guess, truth)
        single[f"{prefix}/accuracy/{agent}"] = right
        found.setdefault("accuracy", []).append(right)
        baseline = chance_score(question, infer.score) if infer.baseline is None else infer.baseline
        rewards[agent] = infer.alpha * (score - baseline)
    return rewards, {f"{prefix}/{name}": math.fsum(values) / len(values) for name, values in found.items()} | single
