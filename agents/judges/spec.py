"""Specification of a judge, from a name such as `hf:NAME?mode=listwise` or from a file."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from palaver.agents.base.rewards import split_options
from palaver.agents.judges.rubric import (
    DEFAULT_RUBRIC,
    JudgeRubric,
    checked_rubric,
    first_fault,
    read_data,
    read_rubric,
)
from palaver.agents.llm.model.options import ModelOptions
from palaver.core import ConfigError, nearest
from palaver.scoring import RewardPlacement

FILES = (".yaml", ".yml", ".json")
S = TypeVar("S", bound=BaseModel)
Mode = Literal["pointwise", "weighted", "listwise", "pairwise"]


class PlacingSpec(BaseModel):
    """RewardPlacement of the score in the environment's reward, and the failure limit of a run."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    own: Literal["replaced", "beside", "gate"] = Field("replaced", description="what becomes of the own reward")
    weight: float = Field(1.0, ge=0, allow_inf_nan=False, description="times the score")
    gate: float = Field(0.0, allow_inf_nan=False, description="own reward from which on the judge is asked")
    when: Literal["each", "last"] = Field("each", description="turns that are judged")
    failures: float = Field(0.2, ge=0, le=1, description="share of unscored cases above which the run stops")

    @property
    def placing(self) -> RewardPlacement:
        """The same as the environments know it."""
        return RewardPlacement(self.own, self.weight, self.gate, self.when)


class JudgeSpec(PlacingSpec):
    """One judge."""

    model: str = Field(min_length=1, description="`hf:NAME`, `openai:MODEL`, `scripted:module:function`")
    mode: Mode = Field("pointwise", description="how it is asked")
    rubric: JudgeRubric = Field(DEFAULT_RUBRIC, description="a file, or the criteria themselves")
    seed: int = Field(0, description="of draws and of the order in which a group is shown")
    sample: int = Field(0, ge=0, description="repeats of one judge are told apart by it")
    temperature: float = Field(0.0, ge=0, allow_inf_nan=False)
    max_tokens: int = Field(700, ge=1, description="of an answer")
    max_chars: int = Field(
        6000, ge=80, description="of each text that is shown; the middle of a longer one is left out"
    )
    asks: int = Field(3, ge=1, le=10, description="times a question is put until its answer can be read")
    calls: int | None = Field(None, ge=0, description="most questions in all")
    cache: bool = Field(True, description="keep answers that could be read")


class EnsembleSpec(PlacingSpec):
    """Several judges, whose mean counts, and one held out, which is only reported."""

    members: tuple[JudgeSpec, ...] = Field(min_length=1, max_length=16)
    holdout: JudgeSpec | None = Field(None, description="a judge that does not count, as an alarm")

    @model_validator(mode="after")
    def _distinct_members(self) -> EnsembleSpec:
        if self.holdout in self.members:
            raise ValueError("the judge held out is also a member, so it cannot raise an alarm")
        return self


def read_spec(text: str) -> JudgeSpec | EnsembleSpec:
    """Make the judge or the ensemble that a specification describes.

    The specification is `MODEL?key=value&...` or `FILE.yaml?key=value&...`. Options that are none of a judge's own go
    to its model: `openai:` and `hf:` names take some.

    Raises:
        ConfigError: the file cannot be read, an option is unknown or does not fit.
    """
    source, options = split_options(text)
    if not source.lower().endswith(FILES):
        return _judge(_with_model(source, options), Path(), "the judge's name")
    path = Path(source).expanduser()
    data = read_data(path, "the judge")
    if not isinstance(data, dict):
        raise ConfigError(f"the judge in {source!r} must be a mapping with a 'model' or with 'members'")
    given = {**data, **options}
    where = repr(source)
    if "members" not in given:
        return _judge(given, path.parent, where)
    members = given["members"]
    if not isinstance(members, list):
        raise ConfigError(f"'members' in {where} must be a list of judges")
    held = given.get("holdout")
    return _fitting(
        EnsembleSpec,
        {
            **given,
            "members": [_judge(member, path.parent, where) for member in members],
            "holdout": None if held is None else _judge(held, path.parent, where),
        },
        where,
    )


def _with_model(source: str, options: dict[str, str]) -> dict[str, Any]:
    """Options of the judge, with the model's own back at its name."""
    judge_options = {name: value for name, value in options.items() if name in JudgeSpec.model_fields}
    others = {name: value for name, value in options.items() if name not in judge_options}
    remote, scripted = source.startswith("openai:"), source.startswith("scripted:")
    known = {*JudgeSpec.model_fields, *(() if scripted else (field.name for field in fields(ModelOptions)))}
    unknown = next((name for name in others if name not in known and not remote), "")
    if unknown:
        raise ConfigError(f"a judge has no option {unknown!r}.{nearest(unknown, known)}")
    query = urlencode(others, safe="/:")
    return {**judge_options, "model": f"{source}?{query}" if query else source}


def _judge(given: object, folder: Path, where: str) -> JudgeSpec:
    """From plain data, or from a name; a rubric's file is looked for in `folder`."""
    if isinstance(given, str):
        source, options = split_options(given)
        given = _with_model(source, options)
    if not isinstance(given, dict):
        raise ConfigError(f"a judge in {where} must be a mapping or a name, not {type(given).__name__}")
    rubric = given.get("rubric")
    if isinstance(rubric, str):
        given = {**given, "rubric": read_rubric(folder / Path(rubric).expanduser())}
    elif rubric is not None:
        given = {**given, "rubric": checked_rubric(rubric, where)}
    return _fitting(JudgeSpec, given, where)


def _fitting(kind: type[S], given: dict[str, Any], where: str) -> S:
    for name in given:
        if name not in kind.model_fields:
            raise ConfigError(f"{where} has an unknown key {name!r}.{nearest(str(name), kind.model_fields)}")
    try:
        return kind.model_validate(given)
    except ValidationError as error:
        raise ConfigError(f"{where} does not fit: {first_fault(error)}") from error
