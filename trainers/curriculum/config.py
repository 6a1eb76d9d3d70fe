"""Config of a curriculum: stages with their match-ups, training data, and gates."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, field_validator, model_validator

from palaver.core import ConfigError, did_you_mean, refuse
from palaver.utils.config import KINDS, Section, Share, validated, values

ENV = "pokemon-v1"
STUDENT, COACH, PREVIOUS, FRESH = "student", "coach", "previous", "fresh"
HEURISTICS = ("random@1", "max_power@1", "typed@1", "simple@1", "damage@1", "gym_leader@1", "veteran@1")
RESERVED = (STUDENT, COACH, PREVIOUS, FRESH)

_NAME = re.compile(r"[a-z][a-z0-9-]{0,30}")
_PAIR = re.compile(r"\s*(\S+)\s+v\s+(\S+)\s*")

Weight = Annotated[float, Field(gt=0)]
Even = Annotated[int, Field(ge=2, multiple_of=2, description="every match is played twice, sides swapped")]


class Mix(Section):
    """Shares of new, old and human decisions in the training data, whatever the folders' sizes."""

    synthetic: Share = Field(1.0, description="share of recorded battles; the rest is of people")
    old: Share = Field(0.0, description="share of the recorded ones that earlier stages have played")
    human: tuple[str, ...] = Field(
        (), description="folders of people's battles, as `palaver pokemon battles` imports them"
    )

    def parts(self) -> tuple[float, float, float]:
        """The shares of new, of old and of human decisions; they add up to 1.

        >>> Mix(synthetic=0.5, old=0.5).parts()
        (0.25, 0.25, 0.5)
        """
        return self.synthetic * (1 - self.old), self.synthetic * self.old, 1 - self.synthetic


class TeamShare(Section):
    """Frequency of a team set."""

    weight: Annotated[float, Field(ge=0)] = Field(1.0, description="in proportion to the other sets'")
    floor: Share = Field(0.0, description="least share of the battles, whatever the weights")


def _team(value: Any) -> Any:
    return {"weight": value} if isinstance(value, int | float) and not isinstance(value, bool) else value


class Gate(Section):
    """Conditions for the next stage, all of which must hold."""

    score: dict[str, Share] = Field({}, description="opponent -> least score against it")
    above: dict[str, float] = Field({}, description="player, stage or `previous` -> Elo of the student above it")
    sure: bool = Field(True, description="the 95 % interval must lie above: a score's lower end, ratings' not overlap")
    teams: tuple[str, ...] = Field((), description="team sets of the ratings that count; none: the first")


class Guard(Section):
    """Guard against forgetting: the mean score against the ratings' opponents on a team set."""

    teams: str = Field(description="team set of the ratings")
    drop: Share = Field(0.05, description="most that the student may score below the one before")


class Stage(Section):
    """A stage: battles, training on them, and the gate that ends it."""

    name: str
    coach: str = Field("", description="a player: veteran@1, search@1, net:FOLDER, an earlier stage's name")
    pairs: dict[str, Weight] = Field(description="`A v B` -> weight; student, coach, players, earlier stages")
    teams: dict[str, Annotated[TeamShare, BeforeValidator(_team)]] = Field(
        description="team set -> weight, or {weight, floor}"
    )
    battles: Even = Field(description="battles of an attempt, an even number")
    temperature: float = Field(0.0, ge=0, le=100, description="at which the student draws its actions; 0: the best one")
    learn: Literal["coach", "winners", "all"] = Field("all", description="whose decisions are learnt from")
    advice: Share = Field(0.0, description="share of the student's decisions at which the coach says what it would do")
    mix: Mix | None = Field(None, description="none: the curriculum's")
    epochs: int = Field(3, ge=1)
    loss: Literal["clone", "filter", "weigh"] = Field("clone", description="as `palaver pokemon clone` explains them")
    options: dict[str, Any] = Field({}, description="further settings of the training, as `lr`")
    start: str = Field(PREVIOUS, description="previous (in the first stage fresh), fresh, or an earlier stage")
    gate: Gate = Gate()
    guard: Guard | None = None
    repeats: int = Field(0, ge=0, description="further attempts where the gate is not passed, with further battles")
    otherwise: Literal["stop", "continue"] = Field("stop", description="after the last attempt")

    @field_validator("name")
    @classmethod
    def _is_a_name(cls, value: str) -> str:
        if not _NAME.fullmatch(value) or value in RESERVED:
            raise ValueError("a stage's name is small letters, digits and dashes, and none of " + ", ".join(RESERVED))
        return value

    @field_validator("pairs", "teams")
    @classmethod
    def _is_not_empty(cls, value: dict[str, Any]) -> dict[str, Any]:
        if not value:
            raise ValueError("name one or more")
        return value

    @field_validator("pairs")
    @classmethod
    def _are_pairs(cls, value: dict[str, float]) -> dict[str, float]:
        bad = next((name for name in value if not _PAIR.fullmatch(name)), None)
        if bad is not None:
            raise ValueError(f"a pair is written `A v B`, as `coach v student: 2`; got {bad!r}")
        return value

    @model_validator(mode="after")
    def _fits(self) -> Stage:
        teams, coached = self.teams.values(), self.learn == COACH
        played = {name for pair, _ in self.weighted() for name in pair}
        refuse(
            [
                (sum(team.floor for team in teams) > 1, "the floors of the teams add up to more than 1; lower some"),
                (not any(team.weight for team in teams), "all weights of the teams are 0; raise one"),
                (
                    coached and not self.coach,
                    "learn: coach needs a coach; name one, or write learn: winners",
                ),
                (self.advice and not self.coach, "advice needs a coach; name one, or leave it out"),
                (
                    self.advice and STUDENT not in played,
                    "advice needs the student in a pair, as `coach v student: 1`",
                ),
                (
                    coached and not self.advice and COACH not in played,
                    "learn: coach needs the coach in a pair, as `coach v student: 1`, or advice",
                ),
            ],
            ValueError,
        )
        return self

    def weighted(self) -> Iterator[tuple[tuple[str, str], float]]:
        """The pairs with their weights, in an order that does not depend on that of the file."""
        for text, weight in sorted(self.pairs.items()):
            match = _PAIR.fullmatch(text)
            assert match
            yield (match[1], match[2]), weight

    @property
    def names(self) -> list[str]:
        """All players named by this stage, except the student and the coach."""
        named = [name for pair, _ in self.weighted() for name in pair]
        return [name for name in dict.fromkeys([*named, self.coach]) if name not in (STUDENT, COACH, "")]


class Ratings(Section):
    """The arena that rates all students so far and the opponents at the end of each stage."""

    opponents: tuple[str, ...] = Field(HEURISTICS, min_length=1)
    anchor: str = Field("random@1", description="whose rating is fixed")
    at: float = Field(1000.0, description="at this")
    battles: Even = Field(100, description="battles of each pairing on each team set, an even number")
    teams: str = Field("sample:train", description="the team set that is trained on, or one like it")
    held_out: tuple[str, ...] = Field(("sample:held-out",), description="team sets that no stage plays")
    among: bool = Field(False, description="let the opponents meet each other too, not the students alone")

    @property
    def sets(self) -> tuple[str, ...]:
        """All team sets, the one trained on first."""
        return tuple(dict.fromkeys((self.teams, *self.held_out)))


class Curriculum(Section):
    """A whole curriculum."""

    format: str = Field("gen1ou", description="of Pokémon Showdown")
    keywords: dict[str, Any] = Field({}, description="further keywords of pokemon-v1")
    size: str = Field("nano", description="of the student: nano, small, medium")
    seed: int = 0
    mix: Mix = Mix()
    ratings: Ratings = Ratings()
    stages: tuple[Stage, ...] = Field(min_length=1)
    jobs: int = Field(0, ge=0, description="processes that play; 0: one for each core")
    parallel: int = Field(32, ge=1, description="battles that a process advances together")
    device: str = Field("auto", description="that trains: auto, cpu, cuda")
    wandb: Literal["disabled", "offline", "online"] = "disabled"
    project: str = Field("palaver", description="of Weights & Biases")

    def mix_of(self, stage: Stage) -> Mix:
        """The mix of a stage, its own or the curriculum's; the first stage has no old decisions."""
        if stage.mix is None and stage == self.stages[0]:
            return self.mix.model_copy(update={"old": 0.0})
        return stage.mix or self.mix


FILE = KINDS["curriculum"].file


def load(recipe: str, overrides: Sequence[str] = ()) -> Curriculum:
    """Load a recipe, a YAML file, or a folder with one, with `key.sub=value` overrides.

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
    for n, stage in enumerate(spec.stages):
        before = [earlier.name for earlier in spec.stages[:n]]
        where, mix = f"stages.{stage.name}", spec.mix_of(stage)
        refuse(
            [
                (stage.name in before, f"{where}: two stages have this name; choose another"),
                (
                    stage.name in ratings.opponents,
                    f"{where}: an opponent of the ratings has this name; choose another",
                ),
                (
                    stage.guard and not before,
                    f"{where}.guard: there is no student before the first stage; leave it out",
                ),
                *_wrong_players(spec, stage, before),
                *_wrong_sets(spec, stage),
                (
                    mix.synthetic < 1 and not mix.human,
                    f"{where}: mix.synthetic {mix.synthetic:g} leaves a share to people; name mix.human folders",
                ),
                (
                    mix.old > 0 and not before,
                    f"{where}: mix.old {mix.old:g} needs an earlier stage; give this one its own mix",
                ),
            ]
        )


def _wrong_players(spec: Curriculum, stage: Stage, before: Sequence[str]) -> Iterator[tuple[object, str]]:
    where = f"stages.{stage.name}"
    played = {name for pair, _ in stage.weighted() for name in pair}
    yield (
        STUDENT in played and not before,
        f"{where}.pairs: there is no student yet in the first stage; let players meet",
    )
    yield COACH in played and not stage.coach, f"{where}.pairs: the coach plays and {where}.coach names none"
    yield (
        stage.coach in (STUDENT, COACH),
        f"{where}.coach: name a player or an earlier stage, not {stage.coach!r}",
    )
    later = {listed.name for listed in spec.stages} - set(before)
    for name in stage.names:
        yield (
            name in later,
            f"{where}: the student of {name!r} is not there yet; only earlier stages can be named",
        )
    starts = [PREVIOUS, FRESH, *before]
    hint = did_you_mean(stage.start, starts)
    yield stage.start not in starts, f"{where}.start: {stage.start!r} is no earlier stage.{hint}"
    known = [*([PREVIOUS] if before else []), *before, *spec.ratings.opponents]
    for key, names in (("score", stage.gate.score), ("above", stage.gate.above)):
        for name in names:
            yield (
                name not in known,
                f"{where}.gate.{key}: {name!r} is not rated by then; add it to ratings.opponents."
                f"{did_you_mean(name, known)}",
            )


def _wrong_sets(spec: Curriculum, stage: Stage) -> Iterator[tuple[object, str]]:
    where, sets = f"stages.{stage.name}", spec.ratings.sets
    named = [(f"{where}.gate.teams", teamset) for teamset in stage.gate.teams]
    named += [(f"{where}.guard.teams", stage.guard.teams)] if stage.guard else []
    for key, name in named:
        yield name not in sets, f"{key}: {name!r} is no team set of the ratings.{did_you_mean(name, sets)}"
    for name in stage.teams:
        yield (
            name in spec.ratings.held_out,
            f"{where}.teams: {name!r} is held out by ratings.held_out, so no stage may play it",
        )
