"""Export of finished runs: only the config, launch info and metrics that a comparison needs.

The result is small enough to commit.
"""

from __future__ import annotations

import itertools
import json
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from palaver.benchmarks.comparison.curves import EVAL as EVALUATION
from palaver.benchmarks.comparison.curves import values_of
from palaver.benchmarks.comparison.finished_runs import Trial, returns_by_task
from palaver.benchmarks.comparison.groups import RunGroup
from palaver.core import ConfigError
from palaver.trainers.run.files import CONFIG, LAUNCH, METRICS
from palaver.utils.run_folder import replace_text

TIMES = ("kind", "step", "wall_s", "cpu_s")
TRAIN = (*TIMES, "reward/mean", "sampled_tokens")
EVAL = (*TIMES, "mean", "low", "high", "n", "tasks", "greedy")


def export_runs(groups: Sequence[RunGroup], folder: Path, metrics: Sequence[str] = ()) -> list[Path]:
    """Copy the config, the launch info and the metrics that a comparison reads of every run.

    The folders are called `GROUP-SEED`. If the metrics lack an evaluation's returns by task, they are computed from
    its episodes. `metrics`, as `--metric` names them, are kept at all steps.

    Raises:
        ConfigError: a folder already holds a run, or cannot be written.
    """
    wanted = {
        folder / f"{re.sub(r'[^A-Za-z0-9._]+', '-', group.name).strip('-.') or 'run'}-{trial.config.seed}": trial
        for group in groups
        for trial in group.trials
    }
    if len(wanted) < sum(len(group.trials) for group in groups):
        raise ConfigError("--keep: two runs have the same group and seed, and their folders would be called alike")
    with exporting(*wanted):
        for path, trial in wanted.items():
            export_run(trial, path, metrics)
    return list(wanted)


@contextmanager
def exporting(*folders: Path) -> Iterator[None]:
    """Context in which new folders are written.

    Raises:
        ConfigError: one exists, or cannot be written.
    """
    for path in folders:
        if path.exists():
            raise ConfigError(f"--keep: {str(path)!r} is already there; remove it, or choose another folder")
    try:
        yield
    except OSError as error:
        raise ConfigError(f"--keep: cannot write {str(error.filename)!r}: {error.strerror}") from error


def export_run(trial: Trial, path: Path, metrics: Sequence[str] = ()) -> None:
    """Export one run to a new folder.

    Raises:
        OSError: it cannot be written.
    """
    path.mkdir(parents=True)
    replace_text(path / METRICS, "".join(json.dumps(line) + "\n" for line in exported_metrics(trial, metrics)))
    for name in (CONFIG, LAUNCH):
        if (trial.run.folder / name).is_file():
            shutil.copyfile(trial.run.folder / name, path / name)


def exported_metrics(trial: Trial, metrics: Sequence[str] = ()) -> list[dict[str, Any]]:
    """Metrics lines that a comparison reads, and `metrics` at all steps."""
    evaluations = []
    for point in (trial.before, trial.after):
        by_task = returns_by_task(trial.run, point)
        evaluations.append(_some(point.line, EVAL, metrics) | ({"by_task": by_task} if by_task else {}))
    counts = (samples - before for before, samples in itertools.pairwise((0.0, *trial.samples)))
    lines = [_some(line, TRAIN, metrics) | {"completions": n} for line, n in zip(trial.lines, counts, strict=True)]
    ends = (trial.before.step, trial.after.step)
    between = [_some(line, TIMES, metrics) for line in trial.run.evals if line["step"] not in ends]
    return [evaluations[0], *lines, *(line for line in between if line.keys() - {*TIMES}), evaluations[1]]


def _some(line: Mapping[str, Any], keys: Sequence[str], metrics: Sequence[str]) -> dict[str, Any]:
    values = values_of(line)
    named = {metric.removeprefix(EVALUATION): values[metric] for metric in metrics if metric in values}
    return {key: line[key] for key in keys if key in line} | named
