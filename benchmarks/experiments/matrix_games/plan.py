"""Plan of a laboratory: every algorithm in every game with several seeds, each a normal run.

A laboratory is a recipe with a section `lab`. Its other sections are those of a run and hold for all cells; `settings`
of an algorithm and `variants` of a game are applied to it, then the overrides of the command line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from omegaconf import OmegaConf
from pydantic import Field

import palaver
from palaver.benchmarks.comparison.finished_runs import refuse
from palaver.core import ConfigError, did_you_mean
from palaver.envs.matrix.corpus import LABORATORY
from palaver.envs.matrix.env import MatrixEnv
from palaver.envs.matrix.games import BUILT_IN
from palaver.envs.matrix.solve import expected_return
from palaver.text import one_line
from palaver.trainers.algorithms.base import ALGORITHMS
from palaver.trainers.config.loading import parse
from palaver.trainers.config.run import RunConfig
from palaver.utils.config import KINDS, Section, merged, parse_overrides, validated, values

NAME = "lab"
FILE = KINDS["matrix-games"].file
Settings = Mapping[str, Any]


class LabConfig(Section):
    """The section `lab`."""

    games: Literal["all"] | tuple[str, ...] = Field(
        "all", description="columns: built-in games and variants; all: eight games of a team, and the variants"
    )
    algorithms: Literal["all"] | tuple[str, ...] = Field("all", description="rows")
    variants: dict[str, dict[str, Any]] = Field({}, description="column -> settings of its cells")
    settings: dict[str, dict[str, Any]] = Field({}, description="algorithm -> settings of its cells")
    skip: dict[str, tuple[str, ...]] = Field({}, description="column -> algorithms that have no cell in it")
    without: dict[str, str] = Field({}, description="algorithm that plays in no column -> why")
    overrides: dict[str, Any] = Field({}, description="settings on top of all, from the command line")
    seeds: int = Field(10, ge=1, description="runs of each cell, with the seeds `seed`, `seed + 1`, ...")
    cores: int = Field(0, ge=0, description="cells that train at the same time; 0: one for each core")
    checkpoints: bool = Field(False, description="keep the weights of finished cells, about 15 MB each")


@dataclass(frozen=True, eq=False)
class MatrixGameRun:
    """One run of the laboratory."""

    algorithm: str
    game: str
    seed: int
    config: RunConfig

    @property
    def subfolder(self) -> Path:
        """Its folder, within that of the laboratory."""
        return Path("cells", self.algorithm, self.game, f"seed-{self.seed}")


@dataclass(frozen=True)
class Column:
    """Known properties of a game.

    Attributes:
        game: its built-in name, or the name in its file or mapping.
        optimum: maximum team return of an episode.
        random: expected team return under uniformly random actions.
    """

    game: str
    optimum: float
    random: float


@dataclass(frozen=True)
class MatrixGamesPlan:
    """A laboratory.

    Attributes:
        lab: its own section.
        cells: all runs, game by game.
        columns: known properties of each game.
        text: the recipe, complete and with the overrides, as `lab.yaml` keeps it.
        out: the folder given by `out=`; empty if none.
    """

    lab: LabConfig
    cells: tuple[MatrixGameRun, ...]
    columns: Mapping[str, Column]
    text: str
    out: str = ""

    @property
    def algorithms(self) -> tuple[str, ...]:
        """The rows of the table."""
        return tuple(dict.fromkeys(cell.algorithm for cell in self.cells))


def load(recipe: str, overrides: Sequence[str] = ()) -> MatrixGamesPlan:
    """Load every cell of a laboratory, checked as far as possible without a model.

    Args:
        recipe: `lab`, the shipped one; a YAML file with a section `lab`; or a laboratory's folder.
        overrides: `key=value`; those of `lab.` choose cells, all others are applied to every cell.

    Raises:
        ConfigError: YAML, keys or values that do not fit, or an unknown game or algorithm.
        TaskError: the wordings cannot be read.
    """
    sections = values("matrix-games", recipe)
    given = _overrides(overrides)
    lab_values, out = given.pop(NAME, {}), str(given.pop("out", "") or "")
    if not isinstance(lab_values, dict):
        raise ConfigError(f"lab is a section; write lab.KEY=value, got lab={lab_values!r}")
    if NAME not in sections:
        raise ConfigError(f"{recipe}: a laboratory has a section lab, such as `lab: {{seeds: 3}}`")
    section = sections.pop(NAME) or {}
    lab_values["overrides"] = merged(section.get("overrides", {}), given)
    lab = validated(LabConfig, merged(section, lab_values), f"{NAME}.")
    _refuse_unknown("without", lab.without, ALGORITHMS)
    names = _rows(lab)
    wanted = (*LABORATORY, *lab.variants) if lab.games == "all" else lab.games
    games = _chosen("games", wanted, dict.fromkeys((*BUILT_IN, *lab.variants)))
    _refuse_unknown("settings", lab.settings, ALGORITHMS)
    for column, left_out in lab.skip.items():
        _refuse_unknown(f"skip.{column}", left_out, ALGORITHMS)
    first = parse(merged(sections, lab.overrides)).seed
    cells = tuple(
        MatrixGameRun(name, game, seed, _config(sections, lab, name, game, seed))
        for game in games
        for name in names
        if name not in lab.skip.get(game, ())
        for seed in range(first, first + lab.seeds)
    )
    if not cells:
        raise ConfigError("lab.skip leaves no cell of the games and algorithms chosen")
    played = dict.fromkeys(cell.game for cell in cells)
    columns = {game: _column(next(cell for cell in cells if cell.game == game)) for game in played}
    text = OmegaConf.to_yaml(OmegaConf.create({NAME: lab.model_dump(mode="json"), **sections}))
    return MatrixGamesPlan(lab, cells, columns, str(text), out)


def _rows(lab: LabConfig) -> list[str]:
    if lab.algorithms == "all":
        return [name for name in ALGORITHMS if name not in lab.without]
    for name in lab.algorithms:
        if name in lab.without:
            raise ConfigError(f"lab.algorithms: {name} is left out by lab.without: {one_line(lab.without[name], 200)}")
    return _chosen("algorithms", lab.algorithms, ALGORITHMS)


def _config(values: Settings, lab: LabConfig, algorithm: str, game: str, seed: int) -> RunConfig:
    built_in = {"env": {"game": game}} if game in BUILT_IN else {}  # a column named like a game plays it
    chosen = merged(values, lab.settings.get(algorithm, {}), built_in, lab.variants.get(game, {}), lab.overrides)
    config = merged(chosen, {"algorithm": {"name": algorithm}, "seed": seed, "out": ""})
    try:
        run_config = parse(config)
    except ConfigError as error:
        raise ConfigError(f"{algorithm} on {game}: {error}") from error
    refuse(run_config, f"{algorithm} on {game}")
    return run_config


def _column(cell: MatrixGameRun) -> Column:
    env = palaver.make(cell.config.env.id, **cell.config.env.keywords())
    if not isinstance(env, MatrixEnv):
        raise ConfigError(f"a laboratory plays matrix-v1, whose best return is known; {cell.game} is {env}")
    even = {state: [[1 / size] * size for size in env.game.sizes] for state in env.game.states}
    by_chance = float(expected_return(env.game, even).mean()) * env.repeats
    return Column(env.game.title, float(env.max_return or 0.0), by_chance)


def _chosen(key: str, wanted: str | Sequence[str], known: Mapping[str, Any]) -> list[str]:
    if wanted == "all":
        return list(known)
    _refuse_unknown(key, wanted, known)
    if not wanted:
        raise ConfigError(f"lab.{key} is empty; name some, or say `all`")
    return list(dict.fromkeys(wanted))


def _refuse_unknown(key: str, names: Sequence[str] | Mapping[str, Any], known: Mapping[str, Any]) -> None:
    for name in names:
        if name not in known:
            raise ConfigError(f"lab.{key}: there is no {name!r}.{did_you_mean(name, known)}")


def _overrides(overrides: Sequence[str]) -> dict[str, Any]:
    settings = parse_overrides(overrides)
    for section, key, way in (("algorithm", "name", "lab.algorithms"), ("env", "game", "lab.games")):
        if isinstance(settings.get(section), dict) and key in settings[section]:
            raise ConfigError(f"a laboratory tries several: choose with {way}=[...] in place of {section}.{key}")
    return settings
