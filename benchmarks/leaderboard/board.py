"""Entries of the leaderboard: environments and scenarios with four kinds of teams each.

A missing kind has a reason instead.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import Field, model_validator

from palaver.agents.llm.model.options import ModelOptions
from palaver.agents.make_policy import parse_policy
from palaver.benchmarks.comparison.finished_runs import refuse
from palaver.benchmarks.evaluation import results as rows
from palaver.benchmarks.evaluation.evaluate import EvaluationConfig, measure, to_row
from palaver.benchmarks.scenarios import spec as scenarios
from palaver.benchmarks.scenarios.spec import SamplingSection
from palaver.core import ConfigError, Sampling, did_you_mean
from palaver.registry import spec
from palaver.text import one_line
from palaver.trainers.config.loading import load
from palaver.trainers.config.run import EVAL_SEED
from palaver.utils.config import Section, validated
from palaver.utils.run_folder import locked, replace_bytes

Kind = Literal["reference", "random", "untrained", "trained"]
KINDS: tuple[Kind, ...] = ("reference", "random", "untrained", "trained")
LIST = "board.yaml"


class BoardEntry(Section):
    """One line of the board.

    Attributes:
        what: an environment's id, or a scenario.
        recipe: the recipe that sets the evaluation: keywords, held-out tasks, samples and sampling; "" for none.
        keywords: of the environment, if there is no recipe.
        n: number of tasks, the first ones, if there is no recipe; 0 for all.
        samples: episodes per task, likewise.
        sampling: of the models, likewise.
        rows: kind of team -> team.
        missing: kind of team -> reason why there is none.
    """

    what: str
    recipe: str = ""
    keywords: dict[str, Any] = Field({})
    n: int = Field(32, ge=0)
    samples: int = Field(1, ge=1)
    sampling: SamplingSection = SamplingSection()
    rows: dict[Kind, str]
    missing: dict[Kind, str] = Field({})

    @model_validator(mode="after")
    def _complete(self) -> BoardEntry:
        if sorted([*self.rows, *self.missing]) != sorted(KINDS):
            raise ValueError(f"each of {', '.join(KINDS)} is either a row or missing with its reason")
        return self

    @property
    def env(self) -> str:
        """The environment's id."""
        return scenarios.load(self.what).env if scenarios.is_scenario(self.what) else spec(self.what).id

    def setting(self, kind: Kind) -> EvaluationConfig:
        """Return the evaluation settings of a kind of team.

        Raises:
            ConfigError: the environment, the scenario or the recipe does not exist.
        """
        team = self.rows[kind]
        if scenarios.is_scenario(self.what):
            return scenarios.setting(scenarios.load(self.what), team, ModelOptions())
        if not self.recipe:
            draws = Sampling(**self.sampling.model_dump())
            return EvaluationConfig(self.what, self.keywords, team, self.n, self.samples, EVAL_SEED, draws)
        config = load(self.recipe)
        keywords = config.env.keywords(config.eval.tasks)
        return EvaluationConfig(
            self.what, keywords, team, config.eval.n, config.eval.samples, config.eval.seed, config.policy.sampling()
        )


def read_board(path: Path | None = None) -> list[BoardEntry]:
    """Read the shipped board, or one in a YAML file: a list of entries.

    Raises:
        ConfigError: it cannot be read, or something in it does not fit.
    """
    name = str(path) if path else LIST
    try:
        shipped = resources.files("palaver.benchmarks.leaderboard").joinpath(LIST)
        values = yaml.safe_load(path.read_text(encoding="utf-8") if path else shipped.read_text(encoding="utf-8"))
        return [validated(BoardEntry, value, where=f"{name}: ") for value in values]
    except (OSError, UnicodeDecodeError, yaml.YAMLError, TypeError) as error:
        raise ConfigError(f"cannot read the board {name!r}: {one_line(error)}") from error


Note = Callable[[str], None]


def measure_all(entries: Sequence[BoardEntry], work: Path, note: Note, only: Collection[str] = ()) -> list[Path]:
    """Return the rows of the board, or of the entries in `only`; evaluate missing ones first.

    Raises:
        ConfigError: `only` names something that is not on the board, or the folder is in use by another process.
        PalaverError: a row cannot be measured.
    """
    known = [entry.what for entry in entries]
    for name in only:
        if name not in known:
            raise ConfigError(f"{name!r} is not on the board.{did_you_mean(name, known)}")
    wanted = [(entry, kind) for entry in entries for kind in entry.rows if not only or entry.what in only]
    paths = []
    with locked(work):
        for index, (entry, kind) in enumerate(wanted, start=1):
            path = work / f"{rows.row_name(entry.what, kind)}{rows.ROW}"
            if not path.is_file():
                note(f"{index} of {len(wanted)}: {entry.what}, {kind}")
                _measure(entry, kind, work, note)
            paths.append(path)
    return paths


def _measure(entry: BoardEntry, kind: Kind, work: Path, note: Note) -> None:
    team = entry.rows[kind]
    policy = parse_policy(team)
    recipe, *overrides = policy.source.split("+")
    if policy.kind == "recipe":
        refuse(load(recipe, overrides), team)
    result, episodes = measure(entry.setting(kind), note)
    if policy.kind == "recipe":  # again, now that the tasks are known
        refuse(load(recipe, overrides), team, [episode.task for episode in episodes])
    to_row(result, episodes, kind, work)


def publish(files: Sequence[Path], folder: Path) -> None:
    """Copy rows and their episodes into `folder`; other files in it are kept.

    Raises:
        ConfigError: a file cannot be read or written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for path in files:
            episodes = path.with_name(rows.load(path).episodes.file)
            for source in (episodes, path):
                replace_bytes(folder / source.name, source.read_bytes())
    except OSError as error:
        raise ConfigError(f"cannot publish the rows in {str(folder)!r}: {error}") from error
