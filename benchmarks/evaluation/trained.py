"""Teams of a recipe, `recipe:NAME+key=value`: trained once and cached by their config."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from palaver.agents.make_policy import parse_policy
from palaver.benchmarks.reports.run_folder import read
from palaver.core import PolicyError, cache_folder
from palaver.trainers.config.loading import load
from palaver.trainers.run.files import CONFIG
from palaver.utils.provenance import provenance

Note = Callable[[str], None]


def resolved(team: str, note: Note) -> str:
    """Return `team`, or for a recipe `run:FOLDER` of the finished run, trained first if missing.

    Raises:
        PalaverError: see `ensure`.
    """
    policy = parse_policy(team)
    return f"run:{ensure(policy.source, note)}" if policy.kind == "recipe" else team


def home(made_by: str) -> Path:
    """Cache folder of the run of `NAME+key=value+...`, named by a hash of its settings.

    Options at their default and the section `tuning` do not count, so that a new option moves no run.

    Raises:
        ConfigError: no such recipe, or an override that does not fit.
    """
    recipe, *overrides = made_by.split("+")
    chosen = load(recipe, overrides).model_dump(mode="json", exclude_defaults=True, exclude={"tuning"})
    key = hashlib.sha256(json.dumps(chosen, sort_keys=True).encode()).hexdigest()[:12]
    return cache_folder() / "trained" / f"{Path(recipe).stem}-{key}"


def ensure(made_by: str, note: Note) -> Path:
    """Return the folder of the finished run of `NAME+key=value+...`; train or resume if needed.

    Training takes minutes, so `note` is called before it begins.

    Raises:
        PolicyError: the training was interrupted.
        PalaverError: the recipe does not fit, or cannot be trained here.
    """
    from palaver.trainers import train as trainer

    folder = home(made_by)
    if _done(folder):
        return folder
    recipe, *overrides = made_by.split("+")
    note(f"training {' '.join((recipe, *overrides))}, once: {folder}")
    if (folder / CONFIG).is_file():
        trainer.resume(folder)
    else:
        launch = {"recipe": recipe, "overrides": overrides, **provenance()}
        trainer.train(load(recipe, overrides), folder, launch=launch)
    if not _done(folder):
        raise PolicyError(f"the training in {str(folder)!r} was interrupted; the same command resumes it")
    return folder


def _done(folder: Path) -> bool:
    return (folder / CONFIG).is_file() and read(folder).state.get("status") == "done"
