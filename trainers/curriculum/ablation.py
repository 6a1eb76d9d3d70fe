"""Ablation of a curriculum: several values of one key at equal compute, rated in one arena."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from pydantic import TypeAdapter

from palaver.core import CheckpointError, ConfigError
from palaver.text import one_line
from palaver.trainers.curriculum import battles
from palaver.trainers.curriculum.backend import Backend
from palaver.trainers.curriculum.config import Curriculum, parse
from palaver.trainers.curriculum.config import load as curriculum
from palaver.trainers.curriculum.run import CurriculumProgress, run, table
from palaver.trainers.curriculum.state import BATTLES, RATING, PlayerRating, StageAttempt, State, places
from palaver.trainers.matches.results import GAMES, read_games
from palaver.trainers.matches.standings import Standings
from palaver.utils.config import merge
from palaver.utils.run_folder import locked, replace_text

RESULTS = "ablation.json"
EQUAL = {"repeats": 0, "otherwise": "continue", "gate": {}, "guard": None}  # a gate would give some more than others


@dataclass(frozen=True)
class Variant:
    """A value of the varied key: its last student, cost, and ratings in the common arena."""

    value: str
    student: str
    battles: int
    decisions: int
    steps: int
    places: tuple[PlayerRating, ...]


@dataclass(frozen=True)
class Ablation:
    """Result of an ablation: the variants, and the arena of their last students."""

    key: str
    variants: tuple[Variant, ...]
    standings: Standings

    @property
    def spread(self) -> float:
        """Relative excess of the most training decisions over the fewest; trajectories stay whole."""
        counts = [variant.decisions for variant in self.variants]
        return max(counts) / max(1, min(counts)) - 1

    def save(self, folder: Path) -> None:
        """Write `ablation.json`."""
        values = {
            "key": self.key,
            "spread": self.spread,
            "variants": [asdict(variant) for variant in self.variants],
            "folders": [_variant_folder(self.key, variant.value) for variant in self.variants],
            "arena": self.standings.to_dict(),
        }
        replace_text(folder / RESULTS, json.dumps(values, indent=1) + "\n")


def load(folder: Path) -> Ablation:
    """Load the result that `ablate` wrote into a folder.

    Raises:
        CheckpointError: there is none, or it is damaged.
    """
    path = folder / RESULTS
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        variants = TypeAdapter(tuple[Variant, ...]).validate_python(values["variants"])
        spec = curriculum(str(folder / values["folders"][0]))
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise CheckpointError(f"{str(path)!r} holds no ablation: {one_line(error)}") from error
    players = [*spec.ratings.opponents, *(_label(values["key"], variant.value) for variant in variants)]
    return Ablation(values["key"], variants, table(read_games(folder / RATING / GAMES), players, spec))


def plan(values: Mapping[str, Any], vary: str) -> tuple[str, dict[str, Curriculum]]:
    """Parse `key=a,b,c` into the key and value -> curriculum, without gates and repeats.

    Raises:
        ConfigError: bad syntax, fewer than two values, a duplicate, or a value that does not fit.
    """
    key, equals, text = vary.partition("=")
    options = [option.strip() for option in re.split(r",(?![^\[{]*[\]}])", text)]
    if not (key and equals) or len(options) < 2 or not all(options):
        raise ConfigError(f"write --vary key=a,b,c with two values or more, as mix.synthetic=0,0.5,1; got {vary!r}")
    twice = next((value for value in options if options.count(value) > 1), None)
    if twice is not None:
        raise ConfigError(f"--vary {key}: the value {twice} stands there twice")
    return key, {value: _variant(values, key, value) for value in options}


def _variant(values: Mapping[str, Any], key: str, value: str) -> Curriculum:
    changed = merge("--vary", [OmegaConf.create(dict(values))], [f"{key}={value}"])
    changed["stages"] = [{**stage, **EQUAL} for stage in changed["stages"]]
    return parse(changed)


def ablate(
    key: str,
    variants: Mapping[str, Curriculum],
    folder: Path,
    backend: Backend,
    progress: CurriculumProgress | None = None,
    report: Callable[[str], None] = lambda _: None,
) -> Ablation:
    """Run every variant, then rate all last students and the opponents in one arena.

    The same call resumes after a kill. Identical battles of two variants are played once, as they share a store.

    Args:
        key: that is varied.
        variants: value -> curriculum.
        folder: for all of it.
        backend: backend that plays and trains.
        progress: progress callbacks.
        report: called at the beginning of each variant.

    Raises:
        PalaverError: see `palaver.trainers.curriculum.run.run`.
    """
    folder = folder.resolve()
    progress = progress or CurriculumProgress()
    with locked(folder):
        states: dict[str, State] = {}
        for value, spec in variants.items():
            report(f"{key}={value}")
            states[value] = run(
                spec, folder / _variant_folder(key, value), backend, progress, store=folder / BATTLES, rated=False
            )
        first = next(iter(variants.values()))
        named = {_label(key, value): state.player(_last(state)).player for value, state in states.items()}
        order = battles.field(first.ratings, named, first.seed)
        progress.phase("all variants: ratings")
        games = backend.play(order, folder / RATING, False, progress.tick)
        standings = table(games, order.players, first)
        rated = places(standings)
        played = tuple(_played_variant(key, value, state, rated) for value, state in states.items())
        ablation = Ablation(key, played, standings)
        ablation.save(folder)
        return ablation


def _last(state: State) -> StageAttempt:
    return state.promoted[state.spec.stages[-1].name]


def _played_variant(key: str, value: str, state: State, rated: Sequence[PlayerRating]) -> Variant:
    played, decisions, steps = (
        sum(getattr(verdict, name) for verdict in state.verdicts) for name in ("played", "decisions", "steps")
    )
    mine = tuple(rating for rating in rated if rating.player == _label(key, value))
    return Variant(value, _last(state).student, played, decisions, steps, mine)


def _variant_folder(key: str, value: str) -> str:
    return re.sub(r"[^\w.=-]+", "-", f"{key}={value}")[:80]


def _label(key: str, value: str) -> str:
    return f"{key.rpartition('.')[2]}={value}"
