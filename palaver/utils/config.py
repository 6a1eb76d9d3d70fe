"""Loading of configs of every kind: YAML, bases, `key.sub=value` overrides, validation."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, TypeVar, cast, get_args
from warnings import warn

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from yaml import YAMLError

from palaver import plugins
from palaver.core import ConfigError, PalaverWarning, did_you_mean, refuse_format
from palaver.text import one_line

M = TypeVar("M", bound=BaseModel)
_UNREADABLE = (OmegaConfBaseException, YAMLError, ValueError, IndexError, TypeError, AttributeError)
_PAIR = re.compile(r"[A-Za-z_][^\s=.\[\]]*(\.[^\s=.\[\]]+|\.?\[[^\]=]+\])*=.*", re.DOTALL)
_KIND = re.compile(r"^kind: *([\w-]+)", re.MULTILINE)
_SEGMENT = re.compile(r"\[(.*?)\](?=\.|\[|$)|([^.\[]+)")


Share = Annotated[float, Field(ge=0, le=1)]
ONE_OR_MORE = BeforeValidator(lambda value: value if isinstance(value, list | tuple) else (value,))


class Section(BaseModel):
    """Section of a config: immutable, unknown keys are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


@dataclass(frozen=True)
class ConfigKind:
    """Kind of config; a file names it by its key `kind`.

    Attributes:
        noun: for messages.
        package: with the shipped files.
        command: that takes a config of this kind.
        file: its name in the folder of a run; "" where a run keeps none.
    """

    noun: str
    package: str
    command: str
    file: str = ""


KINDS = {
    "run": ConfigKind("recipe", "palaver.trainers.recipes", "palaver train", "config.yaml"),
    "curriculum": ConfigKind(
        "curriculum", "palaver.trainers.curriculum.recipes", "palaver experiment curriculum run", "curriculum.yaml"
    ),
    "matrix-games": ConfigKind(
        "laboratory", "palaver.benchmarks.experiments.matrix_games", "palaver experiment matrix-games", "lab.yaml"
    ),
    "marlhf": ConfigKind(
        "reward model recipe", "palaver.benchmarks.experiments.marlhf", "palaver experiment marlhf", "marlhf.yaml"
    ),
    "reasoning": ConfigKind("table", "palaver.benchmarks.experiments.reasoning", "palaver experiment reasoning"),
    "scenario": ConfigKind("scenario", "palaver.benchmarks.scenarios", "palaver evaluate"),
}


def recipes(kind: str) -> dict[str, str]:
    """Name -> first comment line of every recipe of a kind, also of packages, sorted by name."""
    return {name: text.partition("\n")[0].lstrip("# ") for name, text in sorted(_texts(kind).items())}


def _texts(kind: str) -> dict[str, str]:
    """Name -> text of every file of a kind; a shipped one precedes one of a package."""
    texts = {name: text for name, text in _installed_texts().items() if _kind_of(text) == kind}
    return texts | _yaml_texts(resources.files(KINDS[kind].package))


@functools.cache
def _installed_texts() -> dict[str, str]:
    texts: dict[str, str] = {}
    for entry in plugins.installed("recipes").values():
        try:
            texts |= _yaml_texts(resources.files(entry.value))
        except ImportError as error:
            warn(f"the recipes {entry.name!r} are left out: {one_line(error)}", PalaverWarning, stacklevel=2)
    return texts


def _yaml_texts(folder: Traversable) -> dict[str, str]:
    files = (entry for entry in folder.iterdir() if entry.name.endswith(".yaml"))
    return {entry.name.removesuffix(".yaml"): entry.read_text(encoding="utf-8") for entry in files}


def _kind_of(text: str) -> str:
    match = _KIND.search(text)
    return match[1] if match else "run"


def load(kind: str, model: type[M], recipe: str, overrides: Sequence[str] = ()) -> M:
    """Load a shipped recipe, a YAML file, or that of a run folder, with `key.sub=value` items.

    A file may have `base: NAME`, a shipped one of its kind whose settings it inherits.

    Raises:
        ConfigError: no such recipe, another kind, bad YAML, an unknown key or a value that does not fit.
    """
    return validated(model, values(kind, recipe, overrides))


def values(kind: str, recipe: str, overrides: Sequence[str] = ()) -> dict[str, Any]:
    """Return the values of a recipe and its bases with the overrides, not yet validated.

    Raises:
        ConfigError: see `load`.
    """
    return merge(recipe, [layer for _, layer in layers(kind, recipe)], overrides)


def layers(kind: str, recipe: str) -> list[tuple[str, DictConfig]]:
    """Name and sections of a recipe and of those it is based on, the lowest base first.

    Raises:
        ConfigError: see `load`.
    """
    configs: list[tuple[str, DictConfig]] = []
    name: Any = recipe
    while name is not None:
        config = _sections(kind, str(name), _text(kind, str(name), shipped=bool(configs)))
        configs.insert(0, (str(name), config))
        name = config.pop("base", None)
        if len(configs) > len(recipes(kind)) + 1:
            raise ConfigError(f"{recipe}: its bases lead back to themselves")
    return configs


def merge(name: str, layers: Sequence[DictConfig], overrides: Sequence[str]) -> dict[str, Any]:
    """Merge layers, later ones over earlier ones, and `key.sub=value` overrides to plain data.

    An entry of a list goes by its index or its name, a key with dots in brackets: `stages.first.teams.[sample:train]`.
    A mapping is merged with the one below it; within an entry of a list it takes its place.

    Raises:
        ConfigError: an invalid override, or they do not fit together; the message begins with `name`.
    """
    try:
        config = cast("DictConfig", OmegaConf.merge(*layers)) if layers else OmegaConf.create({})
        for key, value in map(_pair, overrides):
            selector, in_list = _selector(config, key)
            OmegaConf.update(config, selector, value, merge=not in_list)
        return cast("dict[str, Any]", OmegaConf.to_container(config, resolve=True))
    except _UNREADABLE as error:
        raise ConfigError(f"{name}: {one_line(error)}") from error


def parse_overrides(overrides: Sequence[str]) -> dict[str, Any]:
    """Parse `key.sub=value` items as nested plain data; a value is YAML, as in `length=[32,64]`.

    Raises:
        ConfigError: an item that is not such a pair, or a value that is not YAML.
    """
    return merge(" ".join(overrides), [], overrides)


def merged(base: Mapping[str, Any], *on_top: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data with others on top, recursively where both hold a mapping.

    >>> merged({"env": {"id": "matrix-v1"}, "seed": 1}, {"env": {"game": "xor"}})
    {'env': {'id': 'matrix-v1', 'game': 'xor'}, 'seed': 1}
    """
    result = dict(base)
    for settings in on_top:
        for key, value in settings.items():
            below = result.get(key)
            result[key] = merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return result


def validated(model: type[M], values: Any, prefix: str = "", where: str = "") -> M:
    """Make a config from plain data.

    Args:
        model: of the config.
        values: of its fields.
        prefix: of the keys in a message, as `lab.`.
        where: beginning of a message, as the name of a file.

    Raises:
        ConfigError: with the dotted key, and the nearest known name where it is unknown.
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        key = prefix + ".".join(map(str, _named(first["loc"], values)))
        if first["type"] == "extra_forbidden":
            known = _section(model, first["loc"][:-1]).model_fields
            raise ConfigError(f"{where}unknown key {key!r}.{did_you_mean(str(first['loc'][-1]), known)}") from error
        if first["type"] == "missing":
            raise ConfigError(f"{where}{key} is missing; write it") from error
        message = first["msg"].removeprefix("Value error, ")
        given = "" if isinstance(first.get("input"), dict) else f", got {first.get('input')!r:.80}"
        subject = f"{key}: " if key else "" if given == "" else "the config: "
        raise ConfigError(f"{where}{subject}{message[:1].lower()}{message[1:]}{given}") from error


def dump(config: BaseModel) -> str:
    """Return the complete config as YAML, which `load` reads back to an equal config."""
    return str(OmegaConf.to_yaml(OmegaConf.create(config.model_dump(mode="json"))))


def leaves(section: BaseModel, prefix: str = "") -> Iterator[tuple[str, Any, Any, str]]:
    """Yield (dotted key, value, default, description) of every leaf."""
    for name, field in type(section).model_fields.items():
        value = getattr(section, name)
        if isinstance(value, BaseModel):
            yield from leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value, field.get_default(call_default_factory=False), field.description or ""
    for name, value in (section.model_extra or {}).items():
        yield f"{prefix}{name}", value, None, "keyword of the environment"


def _text(kind: str, recipe: str, *, shipped: bool) -> str:
    known, noun = _texts(kind), KINDS[kind].noun
    if recipe in known:
        return known[recipe]
    path = Path(recipe)
    if path.is_dir() and KINDS[kind].file:
        path = path / KINDS[kind].file
    if path.suffix in {".yaml", ".yml"} and not shipped:
        if not path.is_file():
            raise ConfigError(f"there is no {noun} file {str(path)!r}")
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the {noun} {recipe!r}: {error}") from error
    for other, entry in KINDS.items():
        if other != kind and recipe in recipes(other):
            raise ConfigError(f"{recipe!r} is a {entry.noun}: {entry.command} {recipe}")
    raise ConfigError(
        f"there is no {noun} {recipe!r}; name a shipped one or a .yaml file.{did_you_mean(recipe, known)}"
    )


def _sections(kind: str, name: str, text: str) -> DictConfig:
    """Parse the text of a config; its `kind` and `format` are checked and removed."""
    try:
        config = OmegaConf.create(text)
    except _UNREADABLE as error:
        raise ConfigError(f"{name}: {one_line(error)}") from error
    if not isinstance(config, DictConfig):
        raise ConfigError(
            f"{name}: a {KINDS[kind].noun} is a mapping of sections, such as `train: {{steps: 10}}` in a recipe"
        )
    if kind == "run" and "format" in config:  # a curriculum has a format of battles
        refuse_format({"format": config.pop("format")}, name)
    found = config.pop("kind", kind)
    if found != kind:
        entry = KINDS.get(found)
        hint = f"run it with: {entry.command} {name}" if entry else did_you_mean(str(found), KINDS).strip()
        raise ConfigError(f"{name} has kind: {found}, not {kind}; {hint}")
    return config


def _pair(item: str) -> tuple[str, Any]:
    if not _PAIR.fullmatch(item):
        raise ConfigError(f"write key=value, or key.sub=value; got {item!r}")
    key, _, value = item.partition("=")
    parsed = cast("dict[str, Any]", OmegaConf.to_container(OmegaConf.from_dotlist([f"value={value}"])))
    return key, parsed["value"]


def _selector(config: DictConfig, key: str) -> tuple[str, bool]:
    """Return a key as OmegaConf writes it, and whether it leads into a list.

    Raises:
        ConfigError: a list has no such entry, or a part of the path holds no keys.
    """
    section: Any = config
    parts: list[str] = []
    in_list = False
    found = _SEGMENT.findall(key)
    segments = [bracketed or plain for bracketed, plain in found]
    for index, (segment, (bracketed, _)) in enumerate(zip(segments, found, strict=True)):
        part = segment
        if isinstance(section, ListConfig):
            in_list = True
            names = [entry.get("name") if isinstance(entry, DictConfig) else None for entry in section]
            part = segment if segment.isdecimal() else str(names.index(segment)) if segment in names else ""
            if not part or int(part) >= len(section):
                hint = did_you_mean(segment, [name for name in names if isinstance(name, str)])
                where = ".".join(segments[:index])
                raise ConfigError(f"{key}: there is no {segment!r} in {where}.{hint}")
        elif section is not None and not isinstance(section, DictConfig):
            raise ConfigError(f"{key}: {segments[index - 1]!r} holds no keys")
        elif section is None and bracketed.isdecimal():
            raise ConfigError(f"{key}: there is no list {segments[index - 1]!r} yet; give all of it, as [1, 2]")

        parts.append(f"[{part}]")
        section = (
            None if section is None else section[int(part)] if isinstance(section, ListConfig) else section.get(part)
        )
    return "".join(parts), in_list


def _named(loc: Sequence[int | str], values: Any) -> list[int | str]:
    """Return the path of a value, with entries of lists by name if they have one."""
    path: list[int | str] = []
    section = values
    for key in loc:
        if isinstance(section, str) or not hasattr(section, "__getitem__"):
            break  # what follows names a member of a union
        try:
            section = section[key]
        except (LookupError, TypeError):
            section = None
        name = section.get("name") if isinstance(key, int) and isinstance(section, Mapping) else None
        path.append(name if isinstance(name, str) else key)
    return path


def _section(model: type[BaseModel], loc: Sequence[int | str]) -> type[BaseModel]:
    section = model
    for key in loc:
        if str(key) in section.model_fields:  # else a name of the user's, as of an agent
            section = _inner(section.model_fields[str(key)].annotation) or section
    return section


def _inner(annotation: Any) -> type[BaseModel] | None:
    """Return the section within an annotation such as `tuple[Stage, ...]` or `Mix | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for argument in get_args(annotation) if (model := _inner(argument))), None)
