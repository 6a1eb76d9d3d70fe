"""Config of MARLHF: a reward model from preferences, and a team trained on it.

The section `team`, where there is one, is a training recipe of its own, which `base` may name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import Field

from palaver.trainers.config.loading import over
from palaver.trainers.config.reward_model import FitConfig, SourceConfig
from palaver.trainers.config.run import RunConfig
from palaver.utils.config import KINDS, Section
from palaver.utils.config import load as load_config

FILE = KINDS["marlhf"].file
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


def load(recipe: str, overrides: Sequence[str] = ()) -> MARLHFConfig:
    """Load a shipped recipe, a YAML file or a run's folder, with `key.sub=value` overrides.

    Raises:
        ConfigError: bad YAML, an unknown key, or a value that does not fit.
    """
    config = load_config("marlhf", MARLHFConfig, recipe, overrides)
    config.run()
    return config
