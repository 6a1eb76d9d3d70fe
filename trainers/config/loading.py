"""Loading of a run's config from a recipe, plain data or a run folder; origins of values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from omegaconf import OmegaConf

from palaver.core import ConfigError, refuse_format
from palaver.trainers.config.defaults import defaults
from palaver.trainers.config.run import RunConfig
from palaver.utils.config import layers, merge, parse_overrides, validated, values


def load(recipe: str, overrides: Sequence[str] = ()) -> RunConfig:
    """Load a recipe by name or YAML file, with `key.sub=value` overrides.

    Raises:
        ConfigError: see `palaver.utils.config.load`.
    """
    return parse(values("run", recipe, overrides))


def over(base: str | None, sections: Mapping[str, Any], overrides: Sequence[str] = ()) -> RunConfig:
    """Load a recipe, if any, with sections of plain data and overrides on top.

    Raises:
        ConfigError: see `load`.
    """
    below = [layer for _, layer in layers("run", base)] if base else []
    return parse(merge(base or "the recipe", [*below, OmegaConf.create(dict(sections))], overrides))


def parse(values: Any) -> RunConfig:
    """Make a `RunConfig` from plain data.

    Raises:
        ConfigError: with the dotted key, and the nearest known name where it is unknown.
    """
    return validated(RunConfig, values)


def parse_file(path: Path) -> RunConfig:
    """Read the config that a run was saved with.

    Raises:
        ConfigError: the file is missing or is not a complete config.
        CheckpointError: it has another format.
    """
    config = load(str(path))
    missing = [name for name in ("env", "policy", "algorithm", "train") if name not in config.model_fields_set]
    if missing:
        raise ConfigError(f"{str(path)!r} is not the complete config of a run: it lacks {', '.join(missing)}")
    refuse_format(cast("dict[str, Any]", OmegaConf.to_container(OmegaConf.load(path))), repr(str(path)))
    return config


def origins(recipe: str, overrides: Sequence[str], config: RunConfig) -> dict[str, str]:
    """Dotted key -> origin of its value; keys with the sections' defaults are left out.

    Args:
        recipe: name or file, as for `load`.
        overrides: `key=value`, as for `load`.
        config: the config that `load` returned for them.

    Raises:
        ConfigError: see `load`.

    >>> origins("arxiv-happo", ["seed=1"], load("arxiv-happo", ["seed=1"]))["algorithm.epochs"]
    'base arxiv-mappo'
    """
    name = config.algorithm.name
    origin_of = dict.fromkeys(defaults(name), f"name {name}")
    stacked = [
        (f"{'recipe' if source == recipe else 'base'} {source}", OmegaConf.to_container(layer))
        for source, layer in layers("run", recipe)
    ]
    for origin, layer in [*stacked, ("command line", parse_overrides(overrides))]:
        origin_of |= dict.fromkeys(_keys(layer), origin)
    return origin_of


def _keys(values: Any, prefix: str = "") -> Iterator[str]:
    """Dotted keys, those of mappings included, for some values are mappings."""
    if isinstance(values, Mapping):
        for key, value in values.items():
            yield f"{prefix}{key}"
            yield from _keys(value, f"{prefix}{key}.")
