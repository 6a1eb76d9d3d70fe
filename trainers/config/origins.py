"""Sources of the settings of a run: the algorithm's name, a recipe, one of its bases, or the command line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omegaconf import DictConfig, OmegaConf

from palaver.trainers.config.defaults import defaults
from palaver.trainers.config.loading import layered, layers
from palaver.trainers.config.run import RunConfig

COMMAND_LINE = "command line"


def origins(recipe: str, overrides: Sequence[str], config: RunConfig) -> dict[str, str]:
    """Dotted key -> where its value was set last; keys that nothing sets are left out.

    Args:
        recipe: name or file, as `load` takes it.
        overrides: `key=value`, as `load` takes them.
        config: made of them by `load`.

    Raises:
        ConfigError: see `load`.

    >>> from palaver.trainers.config.loading import load
    >>> origins("arxiv-happo", ["seed=1"], load("arxiv-happo", ["seed=1"]))["algorithm.epochs"]
    'base arxiv-mappo'
    """
    name = config.algorithm.name
    found = dict.fromkeys(defaults(name), f"name {name}")
    stacked = [(f"{'recipe' if made == recipe else 'base'} {made}", values) for made, values in layers(recipe)]
    given = OmegaConf.create(layered(recipe, [], overrides))
    assert isinstance(given, DictConfig)
    for origin, values in [*stacked, (COMMAND_LINE, given)]:
        for key in _keys(OmegaConf.to_container(values)):
            found[key] = origin
    return found


def _keys(values: Any, prefix: str = "") -> Iterator[str]:
    """Dotted keys; a mapping counts as one too, for some values are mappings."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            yield f"{prefix}{key}"
            yield from _keys(value, f"{prefix}{key}.")
