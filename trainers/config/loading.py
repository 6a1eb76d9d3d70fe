"""Recipes: a run's config read from YAML layers and dotted overrides, and written back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, get_args, get_origin

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, ValidationError
from yaml import YAMLError

from palaver.core import ConfigError, did_you_mean, refuse_format
from palaver.trainers.config.run import RunConfig
from palaver.utils.config import shipped_recipes

_UNREADABLE = (OmegaConfBaseException, YAMLError, ValueError, IndexError, TypeError)
M = TypeVar("M", bound=BaseModel)


def recipes() -> dict[str, str]:
    """Name -> first comment line of every shipped recipe."""
    return shipped_recipes("palaver.trainers.recipes")


def load(recipe: str, overrides: list[str] | None = None) -> RunConfig:
    """Load a recipe by name or YAML file, with `key.sub=value` overrides.

    A recipe may have `base: NAME`, a shipped recipe whose settings it inherits.

    Raises:
        ConfigError: no such recipe, bad YAML, an unknown key or a value of the wrong type.
    """
    return parse(layered(recipe, [layer for _, layer in layers(recipe)], overrides or []))


def over(base: str, sections: Mapping[str, Any]) -> RunConfig:
    """Load a recipe by name or YAML file, with sections of plain data on top.

    Raises:
        ConfigError: see `load`.
    """
    return parse(layered(base, [*(layer for _, layer in layers(base)), OmegaConf.create(dict(sections))], []))


def layered(name: str, layers: Sequence[DictConfig], overrides: Sequence[str]) -> Any:
    """Merge layers, later ones over earlier ones, and `key.sub=value` overrides to plain data.

    Raises:
        ConfigError: an invalid override, or they do not fit together; the message begins with `name`.
    """
    bad = [item for item in overrides if "=" not in item]
    if bad:
        raise ConfigError(f"an override is written key=value, got {bad[0]!r}")
    try:
        merged = OmegaConf.merge(*layers, OmegaConf.from_dotlist(list(overrides)))
        return OmegaConf.to_container(merged, resolve=True)
    except _UNREADABLE as error:
        raise ConfigError(f"{name}: {' '.join(str(error).split())}") from error


def layers(recipe: str) -> list[tuple[str, DictConfig]]:
    """Name and sections of a recipe and of those it is based on, the lowest base first."""
    configs: list[tuple[str, DictConfig]] = []
    name: Any = recipe
    while name is not None:
        config = sections(str(name), _text(str(name), shipped=bool(configs)), "train: {steps: 10}")
        if "format" in config:
            refuse_format({"format": config.pop("format")}, str(name))
        configs.insert(0, (str(name), config))
        name = config.pop("base", None)
        if len(configs) > len(recipes()):
            raise ConfigError(f"{recipe}: its bases lead back to themselves")
    return configs


def sections(name: str, text: str, example: str) -> DictConfig:
    """Parse the sections in the text of a recipe.

    Raises:
        ConfigError: the text is not YAML, or no mapping as the example; the message begins with `name`.
    """
    try:
        config = OmegaConf.create(text)
    except _UNREADABLE as error:
        raise ConfigError(f"{name}: {' '.join(str(error).split())}") from error
    if not isinstance(config, DictConfig):
        raise ConfigError(f"{name}: a recipe is a mapping of sections such as `{example}`")
    return config


def _text(recipe: str, *, shipped: bool) -> str:
    path = Path(recipe)
    if path.suffix in {".yaml", ".yml"} and not shipped:
        if not path.is_file():
            raise ConfigError(f"there is no recipe file {recipe!r}")
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the recipe {recipe!r}: {error}") from error
    known = recipes()
    if recipe not in known:
        raise ConfigError(f"there is no recipe {recipe!r}.{did_you_mean(recipe, known)}")
    return resources.files("palaver.trainers.recipes").joinpath(f"{recipe}.yaml").read_text(encoding="utf-8")


def parse(values: Any) -> RunConfig:
    """Make a `RunConfig` from plain data.

    Raises:
        ConfigError: with the dotted key, and the nearest known name where it is unknown.
    """
    return validated(RunConfig, values)


def validated(model: type[M], values: Any) -> M:
    """Make a config of any model from plain data.

    Raises:
        ConfigError: see `parse`.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        message = _explain(model, first["loc"], first["type"], first["msg"], first.get("input"))
        raise ConfigError(message) from error


def _explain(model: type[BaseModel], loc: tuple[int | str, ...], kind: str, message: str, value: Any) -> str:
    key = ".".join(map(str, loc))
    if kind != "extra_forbidden":
        return f"{key or 'the config'}: {message[0].lower()}{message[1:]}, got {value!r}"
    section: type[BaseModel] = model
    for field in loc[:-1]:
        if str(field) not in section.model_fields:
            continue  # a name of the user's, as of an agent
        inner = section.model_fields[str(field)].annotation
        inner = get_args(inner)[1] if get_origin(inner) is dict else inner
        section = inner if isinstance(inner, type) and issubclass(inner, BaseModel) else section
    return f"unknown key {key!r}.{did_you_mean(str(loc[-1]), section.model_fields)}"


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
    refuse_format(dict(sections(str(path), _text(str(path), shipped=False), "")), repr(str(path)))
    return config


def dump(config: RunConfig) -> str:
    """Return the complete config as YAML, which `load` reads back to an equal config."""
    return str(OmegaConf.to_yaml(OmegaConf.create(config.model_dump(mode="json"))))
