"""Loading and validation of a curriculum: a shipped recipe or a file, with overrides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from palaver.core import ConfigError, did_you_mean
from palaver.trainers.curriculum.config import COACH, FRESH, PREVIOUS, STUDENT, Curriculum, Stage
from palaver.utils.config import KINDS, validated, values

FILE = KINDS["curriculum"].file


def load(recipe: str, overrides: Sequence[str] = ()) -> Curriculum:
    """Load a recipe, a YAML file, or a folder with one, with `key.sub=value` overrides; stages go by name.

    Raises:
        ConfigError: see `palaver.utils.config.load`, or an impossible stage.
    """
    return parse(values("curriculum", recipe, overrides))


def parse(values: Mapping[str, Any]) -> Curriculum:
    """Validate a curriculum from plain data.

    Raises:
        ConfigError: with the dotted key, and the nearest known name if it is unknown.
    """
    curriculum = validated(Curriculum, values)
    _check(curriculum)
    return curriculum


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
