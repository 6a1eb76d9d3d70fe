"""Run folders: the folder of a new run, and the run of `--resume`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from palaver.core import CheckpointError, ConfigError, did_you_mean
from palaver.trainers.config.loading import load
from palaver.trainers.config.run import RunConfig
from palaver.trainers.run.files import CONFIG, LAUNCH, METRICS, RUNS, fresh, refuse_edited
from palaver.utils.config import leaves, parse_overrides, recipes
from palaver.utils.run_folder import read_record, refuse_in_use


@dataclass(frozen=True)
class TrainJob:
    """Config and folder of a training; `overrides` are the `key=value` items only."""

    recipe: str
    overrides: tuple[str, ...]
    config: RunConfig
    folder: Path
    resume: bool


def plan(recipe: str, items: Sequence[str], resume: bool, out: Path | None) -> TrainJob:
    """Load the recipe and choose the folder; nothing is written.

    `recipe` may be a run folder if `resume` is set, and so may the one item without `=`.

    Raises:
        ConfigError: a recipe, key or value that does not fit, or a folder that already holds a run.
        CheckpointError: there is nothing to resume.
    """
    overrides = tuple(item for item in items if "=" in item)
    bare = [item for item in items if "=" not in item]
    if resume:
        return _resumed(recipe, overrides, bare, out)
    parse_overrides(items)
    if (Path(recipe) / CONFIG).is_file():
        again = Path(recipe) / CONFIG
        raise ConfigError(
            f"{recipe!r} is a run folder: add --resume to resume it, or give {str(again)!r} to start again"
        )
    config = load(recipe, overrides)
    folder = out or (Path(config.out) if config.out else fresh(_stem(recipe)))
    if (folder / METRICS).exists():
        refuse_in_use(folder)
        raise ConfigError(f"{str(folder)!r} already holds a run; add --resume, or choose another folder with --out")
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{str(folder)!r} is a file, so no run can be written there; choose another with --out")
    return TrainJob(recipe, overrides, config, folder, resume=False)


def _resumed(recipe: str, overrides: tuple[str, ...], bare: Sequence[str], out: Path | None) -> TrainJob:
    if len(bare) > 1:
        raise ConfigError(f"--resume takes one run folder, got {' and '.join(bare)}")
    if bare:
        folder = Path(bare[0])
        begun = read_record(folder / LAUNCH).get("recipe")
        if begun not in (None, recipe):
            raise ConfigError(f"the run in {str(folder)!r} is one of {begun!r}, not of {recipe!r}")
    elif Path(recipe).is_dir():
        folder = Path(recipe)
    else:
        folder = out or newest(recipe)
    if not (folder / CONFIG).is_file():
        what = "is not a run folder: it holds no config.yaml" if folder.is_dir() else "does not exist"
        raise CheckpointError(f"cannot resume: {str(folder)!r} {what}")
    if out and folder != out:
        raise ConfigError(f"a resumed run stays where it is: {str(folder)!r}; leave --out out")
    config = load(str(folder / CONFIG))
    refuse_edited(folder, config)
    _refuse_changes(config, load(str(folder / CONFIG), overrides), folder)
    return TrainJob(recipe, overrides, config, folder, resume=True)


def _refuse_changes(saved: RunConfig, requested: RunConfig, folder: Path) -> None:
    """Refuse a changed config, so that the metrics are those of an uninterrupted run."""
    saved_values = {key: value for key, value, *_ in leaves(saved)}
    for key, wish, *_ in leaves(requested):
        if saved_values.get(key) != wish:
            raise ConfigError(
                f"a resumed run keeps its config: {key} is {saved_values.get(key)} there, not {wish}; leave {key} out, "
                f"or start again from {str(folder / CONFIG)!r}"
            )


def newest(recipe: str, runs: Path = RUNS) -> Path:
    """Return the newest run of a recipe under `runs`.

    Raises:
        ConfigError: no such recipe.
        CheckpointError: it has no run.
    """
    known = recipes("run")
    if recipe not in known and not Path(recipe).is_file():
        raise ConfigError(
            f"there is neither a run folder nor a recipe {recipe!r} to resume.{did_you_mean(recipe, known)}"
        )
    folder = latest(_stem(recipe), CONFIG, runs)
    if folder is None:
        raise CheckpointError(f"there is no run of {recipe!r} in {str(runs)!r}; name its folder after --resume")
    return folder


def latest(stem: str, file: str, runs: Path = RUNS) -> Path | None:
    """Return the folder named by `fresh` for a stem with the newest `file`; None if none has it."""
    pattern = re.compile(rf"{re.escape(stem)}-\d{{8}}-\d{{6}}(-\d+)?")
    candidates = [path for path in runs.glob("*") if pattern.fullmatch(path.name) and (path / file).is_file()]
    return max(candidates, key=lambda path: ((path / file).stat().st_mtime, path.name), default=None)


def _stem(recipe: str) -> str:
    path = Path(recipe)
    return (path.resolve().parent.name if path.name == CONFIG else path.stem) or "run"


def split_recipe(recipe: str, items: Sequence[str] | None, default: str) -> tuple[str, list[str]]:
    """Return a recipe and its overrides; the recipe may be left out."""
    return (default, [recipe, *(items or [])]) if "=" in recipe else (recipe, list(items or []))


def experiment(recipe: str, out: Path | None, configured: str = "") -> Path:
    """Return the folder of an experiment: given as its recipe, by `--out`, configured or new."""
    if Path(recipe).is_dir():
        return Path(recipe)
    return out or (Path(configured) if configured else fresh(Path(recipe).stem))


def is_main_process() -> bool:
    """Return False in the worker processes of `accelerate launch`.

    They print and write nothing.
    """
    return os.environ.get("RANK", "0") == "0"
