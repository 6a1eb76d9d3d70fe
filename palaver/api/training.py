"""Training runs and their results."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pettingzoo import ParallelEnv
from rich.console import Console

from palaver.agents.base.policy import Policy
from palaver.agents.llm.model.options import ModelOptions
from palaver.api.playing import restricted
from palaver.benchmarks.reports.run_folder import RunFolder, read
from palaver.benchmarks.reports.run_report import page
from palaver.core import ConfigError, need
from palaver.episodes import Episode
from palaver.registry import spec
from palaver.trainers.config.loading import load, over
from palaver.trainers.config.run import RunConfig
from palaver.trainers.run.files import fresh
from palaver.utils.provenance import provenance

if TYPE_CHECKING:
    from PIL.Image import Image

    from palaver.trainers.algorithms.base import Algorithm


class Run:
    """A run of training, finished or not.

    Args:
        folder: of the run.
        trust: load code that its files name.

    Raises:
        CheckpointError: it is no run folder.
    """

    def __init__(self, folder: Path | str, *, trust: bool = False) -> None:
        self.folder, self.trust = Path(folder), trust
        _ = self.record

    def __repr__(self) -> str:
        record = self.record
        return f"Run({str(self.folder)!r}, {record.state.get('status', 'unknown')}, {record.step} steps)"

    @property
    def record(self) -> RunFolder:
        """Everything that can be read in the folder now: config, status, train and evaluation lines."""
        with restricted(self.trust):
            return read(self.folder)

    @property
    def metrics(self) -> list[dict[str, Any]]:
        """Metrics of each training step, as a table of rows for pandas or `datasets`."""
        return [dict(line) for line in self.record.train]

    @property
    def evaluations(self) -> list[dict[str, Any]]:
        """Metrics of each evaluation during the run."""
        return [dict(line) for line in self.record.evals]

    @property
    def policies(self) -> dict[str, Path]:
        """Trained agent -> folder of its model or adapter in the latest valid checkpoint.

        Plain transformers and peft load it.

        Raises:
            CheckpointError: there is no valid checkpoint.
        """
        from palaver.trainers.run import checkpoint

        return checkpoint.policy_folders(checkpoint.newest(self.folder)[0])

    def team(self, options: ModelOptions | None = None) -> dict[str, Policy]:
        """Agent -> policy of the latest valid checkpoint.

        Raises:
            CheckpointError: there is no valid checkpoint.
            PolicyError: a policy cannot be loaded.
        """
        from palaver.trainers.rollout.team import load_run
        from palaver.trainers.run import checkpoint

        with restricted(self.trust):
            config = load(str(self.folder))
            agents = [*checkpoint.agents_of(checkpoint.newest(self.folder)[0]), *config.team.frozen]
            return load_run(self.folder, agents, options or ModelOptions())

    def episodes(self, step: int | None = None) -> list[Episode]:
        """Episodes of the evaluation at a step, by default the last one."""
        record = self.record
        last = int(record.evals[-1]["step"]) if record.evals else 0
        return record.episodes(last if step is None else step)

    def plot(self) -> Image:
        """Learning curve, which is written to the folder with the report; a notebook shows it.

        Raises:
            ConfigError: matplotlib or pillow is not installed.
        """
        need("a plot", "train", "matplotlib", "PIL")
        from PIL import Image

        with restricted(self.trust):
            page.write(self.folder)
        with Image.open(self.folder / page.CURVE) as image:
            image.load()
        return image


def train(
    recipe: str | os.PathLike[str] | Mapping[str, Any] | RunConfig,
    settings: Mapping[str, Any] | None = None,
    *,
    env: str | type[ParallelEnv[str, str, str]] | None = None,
    algorithm: str | Algorithm | None = None,
    out: str | os.PathLike[str] | None = None,
    resume: bool = False,
    progress: bool = True,
    trust: bool = False,
) -> Run:
    """Train a team.

    Args:
        recipe: name of a recipe, YAML file, run folder with `resume`, sections as plain data (with `base`, on top of
            that recipe), or a config.
        settings: dotted key -> value, on top of the recipe: `{"train.steps": 20, "seed": 1}`.
        env: environment in place of the recipe's: its id, `module:attribute` or class.
        algorithm: algorithm in place of the recipe's: its name, `module:attribute` or an `Algorithm`.
        out: run folder; by default a new one in `runs/`.
        resume: resume the run in the folder `recipe` from its latest valid checkpoint.
        progress: show the summary and a progress bar.
        trust: load code that a recipe's file or a run folder names.

    Raises:
        ConfigError: a recipe, key or value that does not fit, or a folder that holds another run.
        TaskError: the data cannot be read.
        PolicyError: a model cannot be loaded.
        CheckpointError: there is nothing to resume.
    """
    need("training", "train")
    from palaver.trainers import train as trainer
    from palaver.trainers.algorithms.base import provide_algorithm

    console = Console(stderr=True, quiet=not progress)
    with restricted(trust, settings, env, algorithm, recipe if isinstance(recipe, Mapping | RunConfig) else ""):
        if resume:
            if settings or env or algorithm or out or not isinstance(recipe, str | os.PathLike):
                raise ConfigError("a resumed run keeps its config and folder: give the folder alone")
            return Run(trainer.resume(Path(recipe), console=console), trust=trust)
        given = dict(settings or {})
        if env is not None:
            given["env.id"] = spec(env).id
        if algorithm is not None:
            given["algorithm.name"] = algorithm if isinstance(algorithm, str) else provide_algorithm(algorithm)
        overrides = [f"{key}={json.dumps(value)}" for key, value in given.items()]
        config = _config(recipe, overrides)
        launch = {"started": time.strftime("%Y-%m-%d %H:%M:%S")} | provenance()
        stem = config.env.id
        if isinstance(recipe, str | os.PathLike):
            launch |= {"recipe": os.fspath(recipe), "overrides": overrides}
            stem = Path(recipe).stem
        folder = Path(out) if out is not None else fresh(stem)
        return Run(trainer.train(config, folder, console=console, launch=launch), trust=True)


def _config(recipe: str | os.PathLike[str] | Mapping[str, Any] | RunConfig, overrides: Sequence[str]) -> RunConfig:
    if isinstance(recipe, RunConfig):
        recipe = recipe.model_dump(mode="json")
    if isinstance(recipe, Mapping):
        sections = dict(recipe)
        return over(sections.pop("base", None), sections, overrides)
    return load(os.fspath(recipe), overrides)
