"""Loading and validation of a curriculum: a shipped recipe or a file, with overrides."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, get_args

import yaml
from pydantic import BaseModel, ValidationError

from palaver.core import ConfigError, did_you_mean
from palaver.trainers.curriculum.config import COACH, FRESH, PREVIOUS, STUDENT, Curriculum, Stage
from palaver.utils.config import shipped_recipes

FILE = "curriculum.yaml"


def recipes() -> dict[str, str]:
    """Name -> first comment line of every shipped recipe."""
    return shipped_recipes("palaver.trainers.curriculum.recipes")


def load(recipe: str, overrides: Sequence[str] = ()) -> Curriculum:
    """Load a recipe, a YAML file, or a folder with one, with `key.sub=value` overrides.

    Raises:
        ConfigError: no such recipe, bad YAML, a key or a value that does not fit, an impossible stage.
    """
    return parse(changed(recipe, overrides))


def changed(recipe: str, overrides: Sequence[str]) -> dict[str, Any]:
    """Return the values of a recipe with `key.sub=value` overrides, not yet validated.

    Raises:
        ConfigError: there is no such recipe, or a key that leads nowhere.
    """
    values = plain(recipe)
    for item in overrides:
        key, equals, value = item.partition("=")
        if not (key and equals):
            raise ConfigError(f"an override is written key=value, got {item!r}")
        put(values, key, _yaml(value, item))
    return values


def plain(recipe: str) -> dict[str, Any]:
    """Return the values of a recipe as written.

    Raises:
        ConfigError: there is none, or it is no mapping.
    """
    values = _yaml(_text(recipe), recipe)
    if not isinstance(values, dict):
        raise ConfigError(f"{recipe}: a curriculum is a mapping with stages, as `stages: [{{name: first, ...}}]`")
    return values


def parse(values: Mapping[str, Any]) -> Curriculum:
    """Validate a curriculum from plain data.

    Raises:
        ConfigError: with the dotted key, and the nearest known name if it is unknown.
    """
    try:
        curriculum = Curriculum.model_validate(values)
    except ValidationError as error:
        raise ConfigError(_explain(error, values)) from error
    _check(curriculum)
    return curriculum


def dump(spec: Curriculum) -> str:
    """The complete curriculum as YAML that `load` reads back to an equal one."""
    return str(yaml.safe_dump(spec.model_dump(mode="json"), sort_keys=False, allow_unicode=True))


def put(values: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key in place, as `mix.synthetic` or `stages.first.epochs`.

    A team set or a player may be in brackets: `stages.first.teams.[sample:train]`.

    Raises:
        ConfigError: there is no such stage, or a part of the path is no mapping.
    """
    section: Any = values
    parts = [one or two for one, two in re.findall(r"\[(.*?)\](?=\.|$)|([^.]+)", key)]
    for n, segment in enumerate(parts):
        last = n == len(parts) - 1
        if isinstance(section, list):
            names = [entry.get("name") if isinstance(entry, dict) else None for entry in section]
            at = int(segment) if segment.isdigit() else names.index(segment) if segment in names else -1
            if not 0 <= at < len(section) or last:
                known = did_you_mean(segment, [name for name in names if isinstance(name, str)])
                raise ConfigError(f"{key}: there is no stage {segment!r} with a key to set.{known}")
            section = section[at]
        elif not isinstance(section, dict):
            raise ConfigError(f"{key}: {parts[n - 1]!r} holds no keys")
        elif last:
            section[segment] = value
        else:
            section = section.setdefault(segment, {})


def _yaml(text: str, where: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ConfigError(f"{where}: {' '.join(str(error).split())}") from error


def _text(recipe: str) -> str:
    path = Path(recipe)
    path = path / FILE if path.is_dir() else path
    if path.suffix in {".yaml", ".yml"}:
        try:
            return path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"cannot read the curriculum {str(path)!r}: {error}") from error
    known = recipes()
    if recipe not in known:
        raise ConfigError(
            f"there is no curriculum {recipe!r}; name a recipe or a .yaml file.{did_you_mean(recipe, known)}"
        )
    folder = resources.files("palaver.trainers.curriculum.recipes")
    return folder.joinpath(f"{recipe}.yaml").read_text(encoding="utf-8")


def _explain(error: ValidationError, values: Mapping[str, Any]) -> str:
    first = error.errors()[0]
    loc = first["loc"]
    key = ".".join(map(str, _named(loc, values))) or "the curriculum"
    if first["type"] == "extra_forbidden":
        return f"unknown key {key!r}.{did_you_mean(str(loc[-1]), _section(loc[:-1]).model_fields)}"
    if first["type"] == "missing":
        return f"{key} is missing; write it"
    message = first["msg"].removeprefix("Value error, ")
    value = first.get("input")
    return f"{key}: {message[:1].lower()}{message[1:]}" + ("" if isinstance(value, dict) else f", got {value!r:.80}")


def _named(loc: Sequence[int | str], values: Any) -> list[int | str]:
    """Return the path of a value, with stages by name if they have one."""
    path: list[int | str] = []
    section = values
    for key in loc:
        try:
            section = section[key]
        except (LookupError, TypeError):
            section = None
        name = section.get("name") if isinstance(key, int) and isinstance(section, dict) else None
        path.append(name if isinstance(name, str) else key)
    return path


def _section(loc: Sequence[int | str]) -> type[BaseModel]:
    section: type[BaseModel] = Curriculum
    for key in loc:
        if str(key) in section.model_fields:
            section = _inner(section.model_fields[str(key)].annotation) or section
    return section


def _inner(annotation: Any) -> type[BaseModel] | None:
    """Return the section within an annotation such as `tuple[Stage, ...]` or `Mix | None`."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((model for argument in get_args(annotation) if (model := _inner(argument))), None)


def _check(spec: Curriculum) -> None:
    """Validate constraints between the parts."""
    ratings = spec.ratings
    if ratings.anchor not in ratings.opponents:
        hint = did_you_mean(ratings.anchor, ratings.opponents)
        raise ConfigError(f"ratings.anchor {ratings.anchor!r} is not among ratings.opponents.{hint}")
    before: list[str] = []
    for stage in spec.stages:
        where = f"stages.{stage.name}"
        if stage.name in before:
            raise ConfigError(f"{where}: two stages have this name; choose another")
        if stage.name in ratings.opponents:
            raise ConfigError(f"{where}: an opponent of the ratings has this name; choose another")
        if stage.guard and not before:
            raise ConfigError(f"{where}.guard: there is no student before the first stage; leave it out")
        _check_players(spec, stage, before)
        _check_sets(spec, stage)
        mix = spec.mix_of(stage)
        if mix.synthetic < 1 and not mix.human:
            raise ConfigError(
                f"{where}: mix.synthetic {mix.synthetic:g} leaves a share to people; name mix.human folders"
            )
        if mix.old > 0 and not before:
            raise ConfigError(f"{where}: mix.old {mix.old:g} needs an earlier stage; give this one its own mix")
        before.append(stage.name)


def _check_players(spec: Curriculum, stage: Stage, before: Sequence[str]) -> None:
    where = f"stages.{stage.name}"
    played = {name for pair, _ in stage.weighted() for name in pair}
    if STUDENT in played and not before:
        raise ConfigError(f"{where}.pairs: there is no student yet in the first stage; let players meet")
    if COACH in played and not stage.coach:
        raise ConfigError(f"{where}.pairs: the coach plays and {where}.coach names none")
    if stage.coach in (STUDENT, COACH):
        raise ConfigError(f"{where}.coach: name a player or an earlier stage, not {stage.coach!r}")
    later = {listed.name for listed in spec.stages} - set(before)
    for name in stage.names:
        if name in later:
            raise ConfigError(f"{where}: the student of {name!r} is not there yet; only earlier stages can be named")
    if stage.start not in (PREVIOUS, FRESH, *before):
        hint = did_you_mean(stage.start, [PREVIOUS, FRESH, *before])
        raise ConfigError(f"{where}.start: {stage.start!r} is no earlier stage.{hint}")
    known = [PREVIOUS, *before, *spec.ratings.opponents]
    for key, names in (("score", stage.gate.score), ("above", stage.gate.above)):
        for name in names:
            if name not in known or (name == PREVIOUS and not before):
                hint = did_you_mean(name, known if before else known[1:])
                raise ConfigError(
                    f"{where}.gate.{key}: {name!r} is not rated by then; add it to ratings.opponents.{hint}"
                )


def _check_sets(spec: Curriculum, stage: Stage) -> None:
    where, sets = f"stages.{stage.name}", spec.ratings.sets
    named = [*((f"{where}.gate.teams", teamset) for teamset in stage.gate.teams)]
    named += [(f"{where}.guard.teams", stage.guard.teams)] if stage.guard else []
    for key, name in named:
        if name not in sets:
            raise ConfigError(f"{key}: {name!r} is no team set of the ratings.{did_you_mean(name, sets)}")
    both = next((name for name in stage.teams if name in spec.ratings.held_out), None)
    if both is not None:
        raise ConfigError(f"{where}.teams: {both!r} is held out by ratings.held_out, so no stage may play it")
