"""Recipes that train a reward model, and their config.

Free of torch, as every start of `palaver train` imports this module.

Such a recipe has a section `pairs`. Its section `team`, where there is one, is a training recipe of its own, which
`base` may name: the team that is then trained on the reward model.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from omegaconf import DictConfig
from pydantic import Field

from palaver.benchmarks.experiments.recipes import is_kind
from palaver.trainers.config.loading import layered, over, sections, validated
from palaver.trainers.config.reward_model import FitConfig, SourceConfig
from palaver.trainers.config.run import RunConfig
from palaver.utils.config import Section, shipped_recipes

FILE = "marlhf.yaml"
MARK = "pairs"
BASE = "arxiv-magrpo"


class MARLHFConfig(Section):
    """The steps from a team to one that is trained on a reward model."""

    pairs: SourceConfig = SourceConfig()
    fit: FitConfig = FitConfig()
    team: dict[str, Any] = Field({}, description="sections of the run on the reward model; empty: there is none")
    seed: int = 0
    device: str = Field("auto", description="auto, cpu, cuda, cuda:1, mps")
    threads: int = Field(0, ge=0, description="torch threads; 0 leaves the default")
    out: str = Field("", description="the folder; empty: runs/RECIPE-TIME")

    def run(self, model: str = "") -> RunConfig | None:
        """Config of the team's run with this reward model as its reward; None if no team is trained.

        Raises:
            ConfigError: the section does not fit.
        """
        if not self.team:
            return None
        values = {key: value for key, value in self.team.items() if key != "base"}
        values = {"seed": self.seed, "device": self.device, "threads": self.threads, **values}
        if model:
            values["env"] = {**values.get("env", {}), "reward": f"rm:{model}?device={self.device}"}
        return over(str(self.team.get("base", BASE)), values)


def recipes() -> dict[str, str]:
    """Name -> first comment line of every shipped recipe."""
    return shipped_recipes("palaver.benchmarks.experiments.marlhf")


def is_marlhf(recipe: str) -> bool:
    """Return whether this is a MARLHF recipe.

    It may be a shipped recipe, a YAML file with a section `pairs`, or a run's folder.
    """
    return is_kind(recipe, recipes(), FILE, MARK, _layer)


def load(recipe: str, overrides: Sequence[str] = ()) -> MARLHFConfig:
    """Load a shipped recipe, a YAML file or a run's folder, with `key.sub=value` overrides.

    Raises:
        ConfigError: bad YAML, an unknown key, or a value that does not fit.
    """
    path = Path(recipe)
    if (path / FILE).is_file():
        text = (path / FILE).read_text(encoding="utf-8")
    elif path.is_file():
        text = path.read_text(encoding="utf-8")
    else:
        text = (
            resources.files("palaver.benchmarks.experiments.marlhf")
            .joinpath(f"{recipe}.yaml")
            .read_text(encoding="utf-8")
        )
    config = validated(MARLHFConfig, layered(recipe, [_layer(text, recipe)], overrides))
    config.run()
    return config


def dump(config: MARLHFConfig) -> str:
    """The complete config as YAML that `load` reads back to an equal one."""
    return yaml.safe_dump(config.model_dump(mode="json"), sort_keys=False, allow_unicode=True)


def _layer(text: str, recipe: str) -> DictConfig:
    return sections(recipe, text, "pairs: {group_size: 12}")
