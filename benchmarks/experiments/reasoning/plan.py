"""Plan of the table of teams: their workflows and training recipes. Free of torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from pydantic import Field, field_validator, model_validator

from palaver.core import ConfigError
from palaver.trainers.config.loading import load
from palaver.trainers.config.run import RunConfig
from palaver.utils.config import Section, validated, values

NAME = "maths"


class TableLine(Section):
    """One line of the table."""

    name: str = Field(description="what the team is called")
    recipe: str = Field("", description="how it was trained; empty: not at all")
    after: str = Field("", description="the row that it was before training; empty: none")
    play: dict[str, Any] = Field({}, description="keywords of the environment; empty: those it was trained with")


class ReasoningPlan(Section):
    """A table."""

    env: str = Field(description="id of the environment")
    keywords: dict[str, Any] = Field({}, description="of all rows; the held-out tasks among them")
    model: str = Field("tiny", description="model of the agents of a team that was not trained")
    max_tokens: int = Field(256, ge=1, description="of an answer")
    baseline: str = Field(description="the row that the others are compared with")
    rows: tuple[TableLine, ...] = Field(min_length=1, description="lines")
    overrides: tuple[str, ...] = Field((), description="settings on top of every recipe")

    @field_validator("rows")
    @classmethod
    def _told_apart(cls, rows: tuple[TableLine, ...]) -> tuple[TableLine, ...]:
        names = [row.name for row in rows]
        if len(set(names)) < len(names):
            raise ValueError("two rows have the same name")
        if empty := next((row.name for row in rows if not row.recipe and not row.play), None):
            raise ValueError(f"the row {empty!r} needs a recipe, or keywords to play with")
        return rows

    @model_validator(mode="after")
    def _compared(self) -> Self:
        names = [row.name for row in self.rows]
        for where, name in (("baseline", self.baseline), *(("after", row.after) for row in self.rows if row.after)):
            if name not in names:
                raise ValueError(f"{where} names {name!r}, which is no row")
        return self

    @property
    def recipes(self) -> tuple[str, ...]:
        """Every recipe of the rows, once."""
        return tuple(dict.fromkeys(row.recipe for row in self.rows if row.recipe))

    def config(self, recipe: str, seed: int) -> RunConfig:
        """The run of a recipe with a seed.

        Raises:
            ConfigError: no such recipe, a setting that does not fit, or another environment than the table's.
        """
        config = load(recipe, [*self.overrides, f"seed={seed}"])
        if config.env.id != self.env:
            raise ConfigError(f"the table is about {self.env}, but {recipe} trains on {config.env.id}")
        return config

    def played(self, row: TableLine) -> dict[str, Any]:
        """Environment keywords of a row's team: the table's on top of its own.

        Raises:
            ConfigError: as `config`.
        """
        trained = dict(self.config(row.recipe, 0).env.model_extra or {}) if row.recipe else {}
        keywords = {key: value for key, value in (row.play or trained).items() if key != "reward_scheme"}
        return {**keywords, **self.keywords}


@dataclass(frozen=True)
class Training:
    """One run that some rows need.

    Attributes:
        recipe: its name.
        seed: of the run.
        config: of the run.
    """

    recipe: str
    seed: int
    config: RunConfig

    @property
    def subfolder(self) -> Path:
        """Its folder, within that of the table."""
        return Path("runs", f"{Path(self.recipe).stem}-{self.seed}")


def trainings(plan: ReasoningPlan, seeds: Sequence[int]) -> tuple[Training, ...]:
    """Training runs of a table, seed by seed, so that a stopped table has complete seeds.

    Raises:
        ConfigError: as `ReasoningPlan.config`.
    """
    return tuple(Training(recipe, seed, plan.config(recipe, seed)) for seed in seeds for recipe in plan.recipes)


def read(source: str, overrides: Sequence[str] = ()) -> ReasoningPlan:
    """The plan of a table: `maths`, the shipped one, or a YAML file with the same fields.

    Args:
        source: that name or file.
        overrides: `key=value` on top of every recipe.

    Raises:
        ConfigError: it cannot be read, or a field does not fit.
    """
    plan = validated(ReasoningPlan, values("reasoning", source), where=f"{source}: ")
    return plan.model_copy(update={"overrides": (*plan.overrides, *overrides)})
