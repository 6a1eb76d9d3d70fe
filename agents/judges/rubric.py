"""Rubric as data: criteria with a text, a weight and choices from the worst to the best."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from palaver.core import ConfigError
from palaver.text import first_fault, one_line

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,39}$")]
Text = Annotated[str, Field(min_length=1, max_length=4000)]
MOST_CHOICES = 9  # so that each has a digit of its own


def as_choice(text: str) -> str:
    """A choice as it is compared: without case, outer white space, quotes or a full stop."""
    return " ".join(text.casefold().split()).strip(" .'\"`*")


class Criterion(BaseModel):
    """One question about an answer.

    Attributes:
        name: a word; key of the verdicts.
        text: its description.
        weight: 0 or more; 0 is queried and reported, and does not count.
        choices: from the worst to the best, two to nine.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Name
    text: Text
    weight: float = Field(1.0, ge=0, allow_inf_nan=False)
    choices: tuple[Annotated[str, Field(min_length=1, max_length=200)], ...] = ("no", "yes")

    @field_validator("choices", mode="before")
    @classmethod
    def _words(cls, choices: Any) -> Any:
        """YAML reads a bare `no` as false and `5` as a number; here both are words."""
        words = {False: "no", True: "yes"}
        if not isinstance(choices, list | tuple):
            return choices
        return [words[c] if isinstance(c, bool) else str(c) if isinstance(c, int) else c for c in choices]

    @model_validator(mode="after")
    def _told_apart(self) -> Criterion:
        if not 2 <= len({as_choice(choice) for choice in self.choices}) == len(self.choices) <= MOST_CHOICES:
            raise ValueError(f"choices must be two to {MOST_CHOICES} different words or sentences")
        return self

    def value(self, choice: str) -> float | None:
        """From 0 for the worst choice to 1 for the best, evenly; None for what is no choice.

        >>> Criterion(name="c", text="t", choices=("bad", "fair", "good")).value(" Fair ")
        0.5
        """
        known = [as_choice(option) for option in self.choices]
        wanted = as_choice(choice)
        return known.index(wanted) / (len(known) - 1) if wanted in known else None


class JudgeRubric(BaseModel):
    """Criteria with different names; one of them or more counts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    criteria: tuple[Criterion, ...] = Field(min_length=1, max_length=20)

    @model_validator(mode="after")
    def _counts(self) -> JudgeRubric:
        names = [criterion.name for criterion in self.criteria]
        if len(set(names)) < len(names):
            raise ValueError(f"two criteria have one name: {', '.join(names)}")
        if not any(criterion.weight for criterion in self.criteria):
            raise ValueError("every criterion has weight 0, so nothing counts")
        return self

    def mean(self, values: Mapping[str, float]) -> float:
        """Weighted mean sum_c w_c v_c / sum_c w_c over the criteria c.

        v_c is 0 for the worst choice and 1 for the best.
        """
        weights = math.fsum(criterion.weight for criterion in self.criteria)
        return math.fsum(criterion.weight * values[criterion.name] for criterion in self.criteria) / weights


DEFAULT_RUBRIC = JudgeRubric(
    criteria=(
        Criterion(
            name="done", text="The answers do what was asked.", weight=2.0, choices=("not at all", "in part", "fully")
        ),
        Criterion(name="correct", text="What the answers say is right.", choices=("no", "mostly", "yes")),
        Criterion(
            name="together",
            text="The agents' answers fit together as the work of one team: none repeats or contradicts another.",
            choices=("no", "mostly", "yes"),
        ),
    )
)


def read_rubric(path: Path) -> JudgeRubric:
    """The rubric in a YAML or JSON file: `criteria`, a list of criteria.

    Raises:
        ConfigError: it cannot be read, or does not fit.
    """
    return checked_rubric(read_data(path, "the rubric"), repr(str(path)))


def checked_rubric(data: object, where: str) -> JudgeRubric:
    """A rubric from plain data.

    Raises:
        ConfigError: it does not fit.
    """
    try:
        return JudgeRubric.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"the rubric in {where} does not fit: {first_fault(error)}") from error


def read_data(path: Path, what: str) -> Any:
    """Plain data from a YAML or JSON file.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"cannot read {what} in {str(path)!r}: {one_line(error)}") from error
