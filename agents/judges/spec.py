"""Specification and rubric of a judge, from a name as `hf:NAME?mode=listwise` or a file."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar
from urllib.parse import urlencode

import yaml
from pydantic import BaseModel, Field, ValidationError, field_validator, model_validator

from palaver.agents.base.rewards import split_options
from palaver.agents.llm.model.options import ModelOptions
from palaver.core import ConfigError, did_you_mean
from palaver.scoring import RewardPlacement
from palaver.text import first_fault, one_line
from palaver.utils.config import Section

Name = Annotated[str, Field(pattern=r"^[A-Za-z][A-Za-z0-9_-]{0,39}$")]
Text = Annotated[str, Field(min_length=1, max_length=4000)]
MOST_CHOICES = 9  # so that each has a digit of its own


def as_choice(text: str) -> str:
    """A choice as it is compared: without case, outer white space, quotes or a full stop."""
    return " ".join(text.casefold().split()).strip(" .'\"`*")


class Criterion(Section):
    """One question about an answer.

    Attributes:
        name: a word; key of the verdicts.
        text: its description.
        weight: 0 or more; 0 is queried and reported, and does not count.
        choices: from the worst to the best, two to nine.
    """

    name: Name
    text: Text
    weight: float = Field(1.0, ge=0)
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
        known, wanted = [as_choice(option) for option in self.choices], as_choice(choice)
        return known.index(wanted) / (len(known) - 1) if wanted in known else None


class JudgeRubric(Section):
    """Criteria with different names; one of them or more counts."""

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
    return _validated(JudgeRubric, read_data(path, "the rubric"), f"the rubric in {str(path)!r}")


def read_data(path: Path, what: str) -> Any:
    """Plain data from a YAML or JSON file.

    Raises:
        ConfigError: it cannot be read.
    """
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise ConfigError(f"cannot read {what} in {str(path)!r}: {one_line(error)}") from error


SUFFIXES = (".yaml", ".yml", ".json")
S = TypeVar("S", bound=BaseModel)
Mode = Literal["pointwise", "weighted", "listwise", "pairwise"]


class PlacementSpec(Section):
    """Place of the score in the environment's reward, and the failure limit of a run."""

    own: Literal["replaced", "added", "gate"] = Field("replaced", description="effect on the environment's own reward")
    weight: float = Field(1.0, ge=0, description="factor of the score")
    gate: float = Field(0.0, description="least own reward at which the judge is called")
    when: Literal["each", "last"] = Field("each", description="turns that are judged")
    failures: float = Field(0.2, ge=0, le=1, description="share of unscored cases above which the run stops")

    @property
    def placement(self) -> RewardPlacement:
        """The settings as environments take them."""
        return RewardPlacement(self.own, self.weight, self.gate, self.when)


class JudgeSpec(PlacementSpec):
    """Specification of one judge."""

    model: str = Field(min_length=1, description="`hf:NAME`, `openai:MODEL`, `scripted:module:function`")
    mode: Mode = Field("pointwise", description="form of its questions")
    rubric: JudgeRubric = Field(DEFAULT_RUBRIC, description="a file, or the criteria themselves")
    seed: int = Field(0, description="of its samples and of the order of a group in a prompt")
    sample: int = Field(0, ge=0, description="index that distinguishes repeats of one judge")
    temperature: float = Field(0.0, ge=0)
    max_tokens: int = Field(700, ge=1, description="of an answer")
    max_chars: int = Field(6000, ge=80, description="of each text in a prompt; the middle of a longer one is left out")
    asks: int = Field(3, ge=1, le=10, description="most attempts to get an answer that can be parsed")
    calls: int | None = Field(None, ge=0, description="most calls in all")
    cache: bool = Field(True, description="keep answers that could be parsed")


class EnsembleSpec(PlacementSpec):
    """Specification of judges whose mean is the score, and of a held-out one for reports."""

    members: tuple[JudgeSpec, ...] = Field(min_length=1, max_length=16)
    holdout: JudgeSpec | None = Field(None, description="a judge outside the mean, to detect reward hacking")

    @model_validator(mode="after")
    def _distinct_members(self) -> EnsembleSpec:
        if self.holdout in self.members:
            raise ValueError("the judge held out is also a member, so it cannot raise an alarm")
        return self


def read_spec(text: str) -> JudgeSpec | EnsembleSpec:
    """Parse `MODEL?key=value&...` or `FILE.yaml?key=value&...`; a file may describe an ensemble.

    Options override the keys of a file. With a model's name, those that no judge has belong to the model: `openai:` and
    `hf:` names take some.

    Raises:
        ConfigError: the file cannot be read, an option is unknown or has an invalid value.
    """
    source, options = split_options(text)
    if not source.lower().endswith(SUFFIXES):
        return _judge(_judge_fields(source, options), Path(), "the judge's name")
    path, where = Path(source).expanduser(), repr(source)
    data = read_data(path, "the judge")
    if not isinstance(data, dict):
        raise ConfigError(f"the judge in {source!r} must be a mapping with a 'model' or with 'members'")
    data = {**data, **options}
    if "members" not in data:
        return _judge(data, path.parent, where)
    if not isinstance(data["members"], list):
        raise ConfigError(f"'members' in {where} must be a list of judges")
    members = [_judge(member, path.parent, where) for member in data["members"]]
    holdout = None if data.get("holdout") is None else _judge(data["holdout"], path.parent, where)
    return _validated(EnsembleSpec, {**data, "members": members, "holdout": holdout}, where)


def _judge_fields(source: str, options: dict[str, str]) -> dict[str, Any]:
    """Fields of a `JudgeSpec`; other options become a query after the model's name."""
    judge_options = {name: value for name, value in options.items() if name in JudgeSpec.model_fields}
    model_options = {name: value for name, value in options.items() if name not in judge_options}
    if not source.startswith("openai:"):  # a remote model checks its options itself
        known = set(JudgeSpec.model_fields)
        if not source.startswith("scripted:"):
            known |= {field.name for field in fields(ModelOptions)}
        unknown = next((name for name in model_options if name not in known), "")
        if unknown:
            raise ConfigError(f"a judge has no option {unknown!r}.{did_you_mean(unknown, known)}")
    query = urlencode(model_options, safe="/:")
    return {**judge_options, "model": f"{source}?{query}" if query else source}


def _judge(data: object, folder: Path, where: str) -> JudgeSpec:
    """Specification from a mapping or a name; the path of a rubric is relative to `folder`."""
    if isinstance(data, str):
        data = _judge_fields(*split_options(data))
    if not isinstance(data, dict):
        raise ConfigError(f"a judge in {where} must be a mapping or a name, not {type(data).__name__}")
    rubric = data.get("rubric")
    if isinstance(rubric, str):
        data = {**data, "rubric": read_rubric(folder / Path(rubric).expanduser())}
    elif rubric is not None:
        data = {**data, "rubric": _validated(JudgeRubric, rubric, f"the rubric in {where}")}
    return _validated(JudgeSpec, data, where)


def _validated(kind: type[S], data: object, where: str) -> S:
    for name in data if isinstance(data, dict) else ():
        if name not in kind.model_fields:
            raise ConfigError(f"{where} has an unknown key {name!r}.{did_you_mean(str(name), kind.model_fields)}")
    try:
        return kind.model_validate(data)
    except ValidationError as error:
        raise ConfigError(f"{where} does not fit: {first_fault(error)}") from error
