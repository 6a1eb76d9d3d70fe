"""Recipes of laboratories. Free of torch, as every start of `palaver train` imports it."""

from __future__ import annotations

from importlib import resources
from typing import Any, cast

from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from palaver.benchmarks.experiments.recipes import is_kind
from palaver.core import ConfigError

NAME = "lab"
FILE = "lab.yaml"


def is_lab(recipe: str) -> bool:
    """Return whether this is a laboratory.

    It may be the shipped one, a YAML file with a section `lab`, or its folder.
    """
    return is_kind(recipe, (NAME,), FILE, NAME, read)


def shipped() -> str:
    """Recipe of `palaver train lab`."""
    return resources.files("palaver.benchmarks.experiments.matrix_games").joinpath(FILE).read_text(encoding="utf-8")


def read(text: str, recipe: str) -> dict[str, Any]:
    """A recipe's sections.

    Raises:
        ConfigError: it is not YAML; the message begins with the recipe's name.
    """
    try:
        values = OmegaConf.to_container(OmegaConf.create(text), resolve=True)
    except (OmegaConfBaseException, YAMLError, ValueError) as error:
        raise ConfigError(f"{recipe}: {' '.join(str(error).split())}") from error
    return cast("dict[str, Any]", values) if isinstance(values, dict) else {}
