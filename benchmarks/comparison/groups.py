"""Comparison of finished runs on a common scale; repeats of one setting form a group.

`palaver compare` draws the result (`charts.py`) and prints it as a table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from pydantic import BaseModel

from palaver.benchmarks.comparison.finished_runs import Trial, scene
from palaver.benchmarks.reports.charts import window_of
from palaver.benchmarks.reports.summary import max_reward
from palaver.core import ConfigError, did_you_mean
from palaver.registry import spec
from palaver.text import one_line
from palaver.utils.stats.improvement import Improvement, improvement

SHORT = {"algorithm": "algorithm.name", "seed": "seed", "env": "env.id", "team": "team.kind", "model": "policy.model"}
NOT_A_SETTING = ("seed", "out", "device", "threads", "log", "tuning")


@dataclass(frozen=True)
class RunGroup:
    """Runs that are repeats of each other.

    Attributes:
        name: the value that they have in common.
        trials: one for each seed.
        max_return: upper bound of the episode return; None if unknown.
        improvement: of the evaluation, in rewards.
    """

    name: str
    trials: tuple[Trial, ...]
    max_return: float | None
    improvement: Improvement

    @property
    def before(self) -> float:
        """Mean over seeds of the evaluation before training."""
        return float(np.mean([trial.before.mean for trial in self.trials]))

    @property
    def after(self) -> float:
        """Mean over seeds of the last evaluation."""
        return float(np.mean([trial.after.mean for trial in self.trials]))

    @property
    def samples(self) -> float:
        """Mean over seeds of the number of sampled training completions."""
        return float(np.mean([trial.samples[-1] for trial in self.trials]))

    def spent(self, key: str) -> float:
        """Mean over seeds of the seconds until the last update, by `wall_s` or `cpu_s`."""
        return float(np.mean([trial.spent(key) for trial in self.trials]))

    @property
    def algorithm(self) -> str:
        """The algorithm of all its runs; "" if they have several."""
        names = {trial.config.algorithm.name for trial in self.trials}
        return names.pop() if len(names) == 1 else ""


@dataclass(frozen=True)
class Comparison:
    """Groups on one scale, the best last evaluation first.

    Attributes:
        by: config key that distinguishes the groups.
        groups: of runs.
        shares: rewards are compared as shares of each environment's maximum, because there are several.
        window: updates in the moving means that are drawn.
        notes: remarks for the reader.
    """

    by: str
    groups: tuple[RunGroup, ...]
    shares: bool
    window: int
    notes: tuple[str, ...]

    @property
    def title(self) -> str:
        """Title: the compared key, the environments, the number of seeds."""
        seeds = sorted({len(group.trials) for group in self.groups})
        envs = sorted({group.trials[0].config.env.id for group in self.groups})
        times = f"{seeds[0]} to {seeds[-1]} seeds" if len(seeds) > 1 else f"{seeds[0]} seed{'s' * (seeds[0] > 1)}"
        what = (
            f"{len(self.groups)} algorithm{'s' * (len(self.groups) > 1)}"
            if self.by == "algorithm"
            else f"Runs by {self.by}"
        )
        return f"{what} on {' and '.join(envs)}, {times}{' each' if len(self.groups) > 1 else ''}"


def compare(trials: Sequence[Trial], by: str = "algorithm", window: int | None = None) -> Comparison:
    """Group runs and put the groups on one scale.

    Args:
        trials: finished runs.
        by: a key of the config, as `team.kind`, or one of the short names in `SHORT`; several with commas between.
        window: updates in the moving means; None takes a tenth of the shortest run, at most 20.

    Raises:
        ConfigError: no such key, a run given twice, or runs without a common scale.
    """
    members: dict[str, list[Trial]] = {}
    for trial in trials:
        name = ", ".join(value_of(trial.config, SHORT.get(key, key)) for key in by.split(","))
        members.setdefault(name, []).append(trial)
    notes = [note for name, group in members.items() for note in _check(name, group)]
    shares = _scale(trials)
    if shares:
        notes.append("the environments differ: rewards are compared as shares of the most that each can pay")
    groups = [_group(name, group) for name, group in members.items()]
    if shares and any(group.max_return is None for group in groups):
        unknown = next(group for group in groups if group.max_return is None)
        raise ConfigError(
            f"runs of different environments are compared as shares of the most that each can pay, which is not known "
            f"of {unknown.trials[0].name!r}"
        )
    window = window or window_of(min(len(trial.lines) for trial in trials))
    groups.sort(key=lambda group: -group.after / (group.max_return or 1.0 if shares else 1.0))
    return Comparison(by, tuple(groups), shares, window, tuple(notes))


def value_of(section: BaseModel, key: str) -> str:
    """The value of a dotted key, in words.

    Keys of an environment keyword that is a mapping are included, as `env.infer.alpha`.

    Raises:
        ConfigError: there is none.
    """
    value: Any = section
    for name in key.split("."):
        known = dict(value) if isinstance(value, BaseModel) else value if isinstance(value, dict) else {}
        if name not in known:
            raise ConfigError(f"--by: a config has no key {key!r}.{did_you_mean(name, list(known))}")
        value = known[name]
    if isinstance(value, BaseModel):
        raise ConfigError(
            f"--by: {key!r} is a section; name a key in it, as {key}.{next(iter(type(value).model_fields))}"
        )
    return one_line(value, 40) if value not in ("", None) else "none"


def _check(name: str, group: Sequence[Trial]) -> list[str]:
    """Refuse runs that are no repeats; return their differences other than the seed."""
    scenes = {scene(trial.config): trial.name for trial in group}
    if len(scenes) > 1:
        one, second = list(scenes.values())[:2]
        raise ConfigError(f"{one!r} and {second!r} are both {name} but of different environments; add --by env.id")
    seen: dict[tuple[int, str], str] = {}
    for trial in group:
        settings = trial.config.model_dump_json(exclude=set(NOT_A_SETTING))
        twin = seen.setdefault((trial.config.seed, settings), trial.name)
        if twin != trial.name:
            raise ConfigError(f"{twin!r} and {trial.name!r} are one run: the same settings and the same seed")
    differing = sorted({key for trial in group[1:] for key in _differences(group[0].config, trial.config)})
    return [f"the runs of {name} differ in {', '.join(differing)} besides the seed"] if differing else []


def _differences(one: BaseModel, second: BaseModel, prefix: str = "") -> list[str]:
    keys = []
    for key in {**dict(one), **(one.model_extra or {}), **dict(second), **(second.model_extra or {})}:
        first_value, second_value = getattr(one, key, None), getattr(second, key, None)
        if first_value == second_value or (not prefix and key in NOT_A_SETTING):
            continue
        same_kind = isinstance(first_value, BaseModel) and isinstance(second_value, BaseModel)
        keys += _differences(first_value, second_value, f"{prefix}{key}.") if same_kind else [f"{prefix}{key}"]  # type: ignore[arg-type]
    return keys


def _scale(trials: Sequence[Trial]) -> bool:
    """Return whether the runs are comparable only as shares of the maximum return.

    Raises:
        ConfigError: they were evaluated on different tasks, or in different ways.
    """
    first = trials[0]
    for trial in trials[1:]:
        a, b = first.config, trial.config
        pair = f"{first.name!r} and {trial.name!r}"
        if a.eval.greedy != b.eval.greedy:
            raise ConfigError(f"{pair} cannot be compared: one was evaluated greedily, the other by sampling")
        if first.by_task and trial.by_task:
            same = first.by_task.keys() == trial.by_task.keys()
        else:
            same = (a.eval.tasks or a.env.tasks, a.eval.n) == (b.eval.tasks or b.env.tasks, b.eval.n)
            same = same and (a.env.id == b.env.id or spec(a.env.id).dataset == spec(b.env.id).dataset != "")
        if not same:
            raise ConfigError(f"{pair} cannot be compared: they were evaluated on different tasks")
    return len({scene(run.config) for run in trials}) > 1


def _group(name: str, trials: Sequence[Trial]) -> RunGroup:
    maxima = [max_reward(trial.run) for trial in trials]
    max_return = None if None in maxima else maxima[0]
    means = [trial.after.mean - trial.before.mean for trial in trials]
    by_task = [trial.by_task for trial in trials if trial.by_task]
    return RunGroup(
        name, tuple(sorted(trials, key=lambda trial: trial.config.seed)), max_return, improvement(means, by_task)
    )
