"""Curves of metrics over training: means over seeds with intervals, by environment.

A metric is a key of `metrics.jsonl` as the boards show it: `reward/mean` of training, `eval/mean` of evaluations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from palaver.benchmarks.comparison.finished_runs import Trial, scene
from palaver.benchmarks.comparison.groups import Comparison, RunGroup
from palaver.benchmarks.reports.charts import moving_mean
from palaver.benchmarks.reports.palette import Look, looks
from palaver.benchmarks.reports.run_folder import number
from palaver.core import ConfigError, did_you_mean
from palaver.text import one_line
from palaver.trainers.run.logging import flatten
from palaver.utils.stats.intervals import student

REWARD, EVAL = "reward/mean", "eval/"
AXES = {
    "samples": "samples (completions to learn from)",
    "wall_s": "wall seconds",
    "cpu_s": "CPU seconds",
    "step": "updates",
}
Array = NDArray[np.float64]


@dataclass(frozen=True)
class Curve:
    """One metric of a group of runs, at the P steps at which all its seeds have a value.

    Attributes:
        name: of the group.
        look: of its line.
        at: axis -> positions of shape (P,), means over seeds; NaN where a seed did not record it.
        mean: over seeds, of shape (P,).
        band: ends of the 95 % interval of the mean over seeds (Student's t), of shape (P,); None for one seed.
        extent: least and greatest value of a seed.
        seeds: their number.
    """

    name: str
    look: Look
    at: Mapping[str, Array]
    mean: Array
    band: tuple[Array, Array] | None
    extent: tuple[float, float]
    seeds: int


@dataclass(frozen=True)
class Panel:
    """Curves of one metric in one environment.

    Attributes:
        env: its id, with its keywords if another panel has the same id.
        label: of the vertical axis.
        curves: one for each group that has the metric.
    """

    env: str
    label: str
    curves: tuple[Curve, ...]

    @property
    def range(self) -> tuple[float, float]:
        """Limits of the vertical axis: the range of the seeds; wider bands are cut off."""
        low = min(curve.extent[0] for curve in self.curves)
        high = max(curve.extent[1] for curve in self.curves)
        margin = 0.06 * (high - low) or max(abs(low), 1.0) * 0.1
        return low - margin, high + margin


def panels(comparison: Comparison, metrics: Sequence[str] = (REWARD,)) -> tuple[list[Panel], list[str]]:
    """Panels of the metrics, each in one environment after the other, and remarks.

    Raises:
        ConfigError: no run has a metric.
    """
    styles = looks([group.algorithm for group in comparison.groups])
    look_of = {group.name: look for group, look in zip(comparison.groups, styles, strict=True)}
    scenes: dict[str, list[RunGroup]] = {}
    for group in comparison.groups:
        scenes.setdefault(scene(group.trials[0].config), []).append(group)
    drawn: list[Panel] = []
    notes: list[str] = []
    for metric in dict.fromkeys(metrics):
        missing = []
        before = len(drawn)
        for place, groups in scenes.items():
            found = {g.name: curve_of(g, metric, comparison.window, look_of[g.name]) for g in groups}
            curves = tuple(curve for curve in found.values() if curve is not None)
            missing += [name for name, curve in found.items() if curve is None]
            if curves:
                drawn.append(Panel(_env_name(place, groups, scenes), _label(metric, groups, comparison.window), curves))
        if len(drawn) == before:
            known = sorted({key for group in comparison.groups for trial in group.trials for key in keys(trial)})
            missed = f"--metric: no run has {one_line(metric, 60)!r} at a step of all its seeds."
            raise ConfigError(missed + did_you_mean(metric, known))
        if missing:
            notes.append(f"{', '.join(missing)} not drawn: no {metric} at a step of all seeds")
    return drawn, notes


def keys(trial: Trial) -> set[str]:
    """Metrics of a run that are numbers; those of tasks are not metrics."""
    return {key for lines in (trial.run.train, trial.run.evals) for line in lines for key in values_of(line)}


def curve_of(group: RunGroup, metric: str, window: int, look: Look) -> Curve | None:
    """Curve of a metric; None if there is no step at which all seeds have a value.

    Args:
        group: the runs.
        metric: its key.
        window: updates in the moving mean of each seed, of metrics of training.
        look: of the line.
    """
    series = [_series(trial, metric) for trial in group.trials]
    steps = sorted(set.intersection(*map(set, series)))
    if not steps:
        return None
    at = {axis: np.array([[one[step][axis] for step in steps] for one in series]).mean(axis=0) for axis in AXES}
    values = np.array([[one[step]["value"] for step in steps] for one in series])
    if not metric.startswith(EVAL):
        values = np.stack([moving_mean(row, window) for row in values])
    ends = [student(column) for column in values.T.tolist()]
    band = tuple(np.array(end) for end in zip(*ends, strict=True)) if len(values) > 1 else None
    extent = float(values.min()), float(values.max())
    return Curve(group.name, look, at, values.mean(axis=0), band, extent, len(values))  # type: ignore[arg-type]


def _series(trial: Trial, metric: str) -> dict[int, dict[str, float]]:
    """Step -> value and position on each axis, at the steps at which the run has the metric."""
    sampled = {int(line["step"]): samples for line, samples in zip(trial.lines, trial.samples, strict=True)}
    found = {}
    for line in trial.run.evals if metric.startswith(EVAL) else trial.run.train:
        value, step = number(values_of(line), metric), int(line["step"])
        if value is not None:
            times = {key: number(line, key) for key in ("wall_s", "cpu_s")}
            found[step] = {
                **{key: float("nan") if time is None else time for key, time in times.items()},
                "step": float(step),
                "samples": max((count for known, count in sampled.items() if known <= step), default=0.0),
                "value": value,
            }
    return found


def values_of(line: Mapping[str, Any]) -> dict[str, float]:
    """Metrics of a line of `metrics.jsonl` by the names that `--metric` takes."""
    kept = {key: value for key, value in line.items() if key not in ("kind", "step", "by_task")}
    return flatten(kept, EVAL if line.get("kind") == "eval" else "")


def _label(metric: str, groups: Sequence[RunGroup], window: int) -> str:
    limit = groups[0].max_return
    most = f" of {limit:g}" if limit is not None else ""
    name = {REWARD: f"training reward{most}", f"{EVAL}mean": f"evaluation, mean return{most}"}.get(metric, metric)
    return name + (f", mean of {window} updates" if window > 1 and not metric.startswith(EVAL) else "")


def _env_name(place: str, groups: Sequence[RunGroup], scenes: Mapping[str, Sequence[RunGroup]]) -> str:
    env = groups[0].trials[0].config.env.id
    alike = [other for other, members in scenes.items() if members[0].trials[0].config.env.id == env]
    return env if len(alike) == 1 else one_line(place, 80)


def band_note(drawn: Sequence[Panel]) -> str:
    """Sentence on the lines and bands."""
    seeds = sorted({curve.seeds for panel in drawn for curve in panel.curves})
    if seeds[-1] == 1:
        return "Line: one seed."
    bare = " A single seed has no band." if seeds[0] == 1 else ""
    return f"Line: mean of the seeds. Band: 95 % interval of that mean over seeds (Student's t).{bare}"
