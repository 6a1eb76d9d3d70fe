"""Origins of a run's settings: the algorithm's name, a recipe or its base, the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omegaconf import OmegaConf

from palaver.trainers.config.defaults import defaults
from palaver.trainers.config.run import RunConfig
from palaver.utils.config import layers, parse_overrides

COMMAND_LINE = "command line"


def origins(recipe: str, overrides: Sequence[str], config: RunConfig) -> dict[str, str]:
    """Dotted key -> origin of its value; keys with the sections' defaults are left out.

    Args:
        recipe: name or file, as for `load`.
        overrides: `key=value`, as for `load`.
        config: the config that `load` returned for them.

    Raises:
        ConfigError: see `load`.

    >>> from palaver.trainers.config.loading import load
    >>> origins("arxiv-happo", ["seed=1"], load("arxiv-happo", ["seed=1"]))["algorithm.epochs"]
    'base arxiv-mappo'
    """
    name = config.algorithm.name
    origin_of = dict.fromkeys(defaults(name), f"name {name}")
    stacked = [
        (f"{'recipe' if source == recipe else 'base'} {source}", OmegaConf.to_container(values))
        for source, values in layers("run", recipe)
    ]
    for origin, values in [*stacked, (COMMAND_LINE, parse_overrides(overrides))]:
        for key in _keys(values):
            origin_of[key] = origin
    return origin_of


def _keys(values: Any, prefix: str = "") -> Iterator[str]:
    """Dotted keys, those of mappings included, for some values are mappings."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            yield f"{prefix}{key}"
            yield from _keys(value, f"{prefix}{key}.")
