"""Specification of scenarios: an environment, its settings, the focal agents, and their partners.

A shipped scenario is a file `NAME.yaml` here, NAME with its version, as `arxiv-strangers-v2`. It never changes: another
partner, another split or another keyword is another version.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, ValidationError, model_validator

from palaver.core import ConfigError, Sampling, nearest
from palaver.text import one_line
from palaver.trainers.config.run import EVAL_SEED
from palaver.utils.config import Section

SHIPPED = "palaver.benchmarks.scenarios"


class Draw(Section):
    """Sampling settings of models; see `palaver.core.Sampling`."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int = 256


class Partner(Section):
    """Policy of the other agents.

    Attributes:
        policy: `scripted:lazy`, `random`, `tiny`, `run:FOLDER`, or `recipe:NAME+key=value`, trained once from this
            repository alone.
        weights: agent -> required fingerprint of its weights; mandatory for a run, as its folder may change.
    """

    policy: str
    weights: dict[str, str] = Field({})

    @model_validator(mode="after")
    def _known(self) -> Partner:
        if self.policy.startswith("run:") and not self.weights:
            raise ValueError("a run is named with the fingerprints of its weights, so that it stays what it was")
        return self


class Scenario(Section):
    """A scenario.

    Attributes:
        name: of the file.
        about: one sentence.
        env: id, with its version.
        keywords: of the environment, the tasks among them.
        n: number of tasks, the first ones; 0 for all.
        samples: episodes per task and seating.
        seed: of every draw.
        focal: the seatings: agents played by the team in each. The partner plays the others.
        partner: their policy.
        max_reward: upper bound of the episode return; None for that of the environment.
        score: `added`, the focal agents' return less that of the same agents when silent; `own`, their own return, for
            opponents.
    """

    name: str = Field(pattern=r"^[a-z0-9-]+-v\d+$")
    about: str
    env: str
    keywords: dict[str, Any] = Field({})
    n: int = Field(32, ge=0)
    samples: int = Field(1, ge=1)
    seed: int = EVAL_SEED
    sampling: Draw = Draw()
    focal: tuple[tuple[str, ...], ...] = Field(min_length=1)
    partner: Partner
    max_reward: float | None = None
    score: Literal["added", "own"] = "added"

    def draws(self) -> Sampling:
        """Sampling settings of models."""
        return Sampling(**self.sampling.model_dump())


def shipped() -> tuple[str, ...]:
    """The scenarios that come with Palaver."""
    names = (entry.name for entry in resources.files(SHIPPED).iterdir())
    return tuple(sorted(name.removesuffix(".yaml") for name in names if name.endswith(".yaml")))


def is_scenario(name: str) -> bool:
    """Return whether it is a shipped scenario, or a file of one."""
    return name.endswith((".yaml", ".yml")) or name in shipped()


def load(name: str) -> Scenario:
    """Load a shipped scenario, or one in a YAML file.

    Raises:
        ConfigError: there is none, or something in it does not fit.
    """
    if name in shipped():
        text = resources.files(SHIPPED).joinpath(f"{name}.yaml").read_text(encoding="utf-8")
        return parse(text, name)
    path = Path(name)
    if path.suffix not in {".yaml", ".yml"}:
        raise ConfigError(f"there is no scenario {name!r}.{nearest(name, shipped())}")
    try:
        return parse(path.read_text(encoding="utf-8"), path.stem)
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read the scenario {name!r}: {one_line(error)}") from error


def parse(text: str, name: str) -> Scenario:
    """Parse a scenario from YAML; its name is that of its file.

    Raises:
        ConfigError: something in it does not fit; the field is named.
    """
    try:
        values = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"the scenario {name!r} is not YAML: {one_line(error)}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"the scenario {name!r} is not a mapping of fields such as `env: arxiv-v0`")
    try:
        return Scenario.model_validate({"name": name, **values})
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise ConfigError(f"the scenario {name!r}: {where}: {one_line(first['msg'])}") from error
