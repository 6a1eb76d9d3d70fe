"""Steps of MARLHF in one folder.

Finished steps are skipped, so that the same command resumes after an interruption.

marlhf.yaml    the complete config
pairs.jsonl    1. preferences between joint actions of the initial team
reward-model/  2. the model of them, with report.json
team/          3. an ordinary run on `rm:reward-model`
marlhf.json    4. the reward model's score and the true reward, at every evaluation
marlhf.png     the same as a figure
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

import palaver
from palaver.agents.make_policy import model_source
from palaver.benchmarks.experiments.marlhf.recipe import FILE, MARLHFConfig, load
from palaver.benchmarks.experiments.marlhf.truth import draw, truth
from palaver.core import ConfigError
from palaver.trainers.preferences import source
from palaver.trainers.preferences.record import read, write
from palaver.trainers.reward_model.fit import Report, fit
from palaver.trainers.run.files import CONFIG, ended
from palaver.trainers.train import prepare, resume, train
from palaver.utils.config import dump
from palaver.utils.run_folder import LOCK, locked, replace_text

PAIRS, MODEL, REPORT, TEAM = "pairs.jsonl", "reward-model", "report.json", "team"
RESULT, PICTURE = "marlhf.json", "marlhf.png"


@dataclass(frozen=True, slots=True)
class MarlhfProgress:
    """Progress callbacks.

    Attributes:
        report: called with one line for each finished part or warning.
        fitting: called with step, number of steps and metrics during reward model training.
        console: of the progress bar of the team's run.
    """

    report: Callable[[str], None]
    fitting: Report
    console: Console


def check(config: MARLHFConfig) -> list[str]:
    """Check a run before it loads a model; returns a description of its steps.

    Raises:
        PalaverError: the first mistake found.
    """
    remarks = [source.check(config.pairs)]
    if (team := config.run()) is not None:
        prepare(team)
        remarks.append(f"{team.algorithm.name} on the reward model, {team.train.steps} steps")
    return remarks


def run(config: MARLHFConfig, folder: Path, progress: MarlhfProgress) -> dict[str, Any]:
    """Run every unfinished step; returns the results, as in `marlhf.json`.

    Raises:
        ConfigError: the folder holds a run of another config, or is in use by another process.
        PalaverError: raised by a step.
    """
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{str(folder)!r} holds something else; choose another folder")
    with locked(folder):
        _open(config, folder)
        if config.threads:
            torch.set_num_threads(config.threads)
        report = _reward_model(config, folder, progress)
        record: dict[str, Any] = {"reward_model": report}
        team = config.run(str(folder / MODEL))
        if team is not None:
            begun, console = (folder / TEAM / CONFIG).is_file(), progress.console
            if not ended(folder / TEAM):
                resume(folder / TEAM, console=console) if begun else train(team, folder / TEAM, console=console)
            if not ended(folder / TEAM):
                return record
            result, held_out = truth(folder / TEAM), report["held_out"]
            record |= asdict(result)
            title = f"reward model: {100 * held_out['accuracy']:.1f} % of {held_out['pairs']} held-out pairs"
            draw(result, title, folder / PICTURE)
        replace_text(folder / RESULT, json.dumps(record, indent=1) + "\n")
    return record


def _open(config: MARLHFConfig, folder: Path) -> None:
    """Write the config, or refuse a folder that holds another."""
    if (folder / FILE).is_file():
        if load(str(folder)) != config:
            raise ConfigError(f"{str(folder)!r} holds a run with other settings; choose another folder, or resume it")
        return
    if any(path.name != LOCK for path in folder.iterdir()):
        raise ConfigError(f"{str(folder)!r} holds something else; choose another folder")
    replace_text(folder / FILE, dump(config))


def _reward_model(config: MARLHFConfig, folder: Path, progress: MarlhfProgress) -> dict[str, Any]:
    """Return the report on the reward model, training it if it does not exist."""
    path = folder / MODEL / REPORT
    if path.is_file():
        return dict(json.loads(path.read_text(encoding="utf-8")))
    if not (folder / PAIRS).is_file():
        write(folder / PAIRS, source.gather(config.pairs, config.seed, config.device, progress.report))
    pairs = read(str(folder / PAIRS))
    progress.report(f"{len(pairs):,} pairs of {len({pair.task for pair in pairs}):,} tasks in {folder / PAIRS}")
    name = model_source(config.fit.model, palaver.spec(config.pairs.env.id).demonstrations)
    fitted = fit(
        pairs, name, config.fit, folder / MODEL, seed=config.seed, device=config.device, report=progress.fitting
    )
    report = {
        "held_out": asdict(fitted.held_out),
        "before": asdict(fitted.before),
        "train": asdict(fitted.train),
        "too_long": fitted.too_long,
        "history": fitted.history,
    }
    replace_text(path, json.dumps(report, indent=1) + "\n")
    return report
