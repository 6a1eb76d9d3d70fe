"""Sweep over settings: a grid of candidates, all trained in full or by successive halving.

Successive halving (Jamieson and Talwalkar, AISTATS 2016) trains all candidates for a part of the steps, keeps the best
of them for a larger part, and so on. Each part is trained from the beginning, because schedules depend on the number
of steps: with a factor of 3 that costs at most half of the last part again for each part before it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from palaver.benchmarks.comparison.charts import write_figure
from palaver.benchmarks.comparison.finished_runs import Trial, trial
from palaver.benchmarks.comparison.groups import Comparison, RunGroup, compare
from palaver.benchmarks.experiments.runner import TrainOutcome, finished, train_all
from palaver.benchmarks.reports.run_folder import read
from palaver.core import CheckpointError, ConfigError
from palaver.text import one_line
from palaver.trainers.config.loading import load
from palaver.trainers.config.run import RunConfig, TuningConfig
from palaver.utils.config import dump, parse_overrides
from palaver.utils.run_folder import locked, replace_text

RESULTS, FIGURE, BEST = "sweep.json", "sweep.png", "best.yaml"
MOST_CANDIDATES = 999
_FIXED = ("seed", "out", "tuning", "train.steps")  # set by the sweep itself


class SweepPart(NamedTuple):
    """One part of a sweep: steps of each run, and number of candidates."""

    steps: int
    candidates: int


@dataclass(frozen=True)
class SweepRun:
    """Run of one candidate with one seed in one part."""

    candidate: int
    config: RunConfig
    overrides: tuple[str, ...]

    @property
    def subfolder(self) -> Path:
        """Its folder within that of the sweep."""
        return Path(f"steps-{self.config.train.steps}") / f"{self.candidate:03d}-{self.config.seed}"


@dataclass(frozen=True)
class Sweep:
    """A sweep before it is run.

    Attributes:
        recipe: that all candidates share.
        overrides: likewise.
        keys: settings that differ.
        candidates: overrides of each, one for each key.
        seeds: of every candidate.
        parts: from the shortest to the full number of steps.
    """

    recipe: str
    overrides: tuple[str, ...]
    keys: tuple[str, ...]
    candidates: tuple[tuple[str, ...], ...]
    seeds: tuple[int, ...]
    parts: tuple[SweepPart, ...]

    @property
    def by(self) -> str:
        """The keys, as `compare` takes them."""
        return ",".join(self.keys)

    def runs(self, candidate: int, steps: int) -> list[SweepRun]:
        """Runs of a candidate in the part of that many steps, one for each seed."""
        given = (*self.overrides, *self.candidates[candidate], f"train.steps={steps}")
        runs = []
        for seed in self.seeds:
            overrides = (*given, f"seed={seed}")
            # seeds and tasks of earlier tuning may be used here, as nothing is reported of a sweep
            config = load(self.recipe, overrides).model_copy(update={"tuning": TuningConfig()})
            runs.append(SweepRun(candidate, config, overrides))
        return runs


@dataclass(frozen=True)
class SweepResult:
    """Result of a sweep.

    Attributes:
        comparison: candidates by their longest runs, the best first.
        best: number of the candidate that won the last part.
        parts: steps -> candidate -> its group of runs, or why it has none.
    """

    comparison: Comparison
    best: int
    parts: Mapping[int, Mapping[int, RunGroup | str]]


def plan(recipe: str, overrides: Sequence[str], over: Sequence[str], seeds: Sequence[int], halve: int) -> Sweep:
    """Plan a sweep, and check every candidate before any is trained.

    Args:
        recipe: of all candidates.
        overrides: of all candidates, `key=value`.
        over: `key=[value,value]`; candidates are all combinations.
        seeds: of every candidate.
        halve: 0 trains all candidates in full; a number keeps one in so many after each part.

    Raises:
        PalaverError: a recipe, key or value that does not fit, or candidates that cannot be compared.
    """
    from palaver.trainers.train import prepare

    values = dict(map(_values, over))
    if len(values) < max(len(over), 1):
        raise ConfigError("--over: name each key once, and at least one, as --over 'optim.lr=[1e-4,1e-3]'")
    if fixed := [key for key in values if key.startswith(_FIXED)]:
        raise ConfigError(f"--over: {fixed[0]} is set by the sweep itself: see --seeds, --halve and --out")
    if halve == 1 or len(set(seeds)) < max(len(seeds), 1):
        raise ConfigError("--halve keeps one in 2 or more" if halve == 1 else "--seeds: name each seed once")
    candidates = tuple(
        tuple(f"{key}={json.dumps(value)}" for key, value in zip(values, combination, strict=True))
        for combination in itertools.product(*values.values())
    )
    if not 2 <= len(candidates) <= MOST_CANDIDATES:
        raise ConfigError(f"--over: give 2 to {MOST_CANDIDATES} candidates, got {len(candidates)}")
    full = load(recipe, overrides).train.steps
    parts = _parts(len(candidates), full, halve)
    sweep = Sweep(recipe, tuple(overrides), tuple(values), candidates, tuple(seeds), parts)
    for number in range(len(candidates)):
        config = sweep.runs(number, full)[0].config
        if not config.eval.n:
            raise ConfigError("a sweep compares evaluations: eval.n must not be 0")
        prepare(config)
    return sweep


def _values(item: str) -> tuple[str, list[Any]]:
    """Key and values of `key=[value,value]`."""
    key = item.partition("=")[0]
    value: Any = parse_overrides([item])
    for name in key.split("."):
        value = value[name]
    if not isinstance(value, list) or not value:
        raise ConfigError(f"--over {one_line(item, 80)!r}: write a list of values, as optim.lr=[1e-4,1e-3]")
    return key, value


def _parts(candidates: int, steps: int, halve: int) -> tuple[SweepPart, ...]:
    """Parts of a sweep: steps grow, and candidates fall, by the factor `halve`.

    >>> [tuple(part) for part in _parts(9, 90, 3)]
    [(10, 9), (30, 3), (90, 1)]
    """
    parts = [SweepPart(steps, candidates)]
    while halve and candidates >= halve ** len(parts) and parts[0].steps > 1:
        parts.insert(0, SweepPart(max(1, steps // halve ** len(parts)), candidates))
    return tuple(SweepPart(part.steps, max(1, candidates // (halve or 1) ** place)) for place, part in enumerate(parts))


def run(
    sweep: Sweep,
    folder: Path,
    workers: int,
    provenance: Mapping[str, Any],
    report: Callable[[SweepRun, TrainOutcome], None],
) -> SweepResult:
    """Train what is not finished yet, part by part, and write the results.

    Args:
        sweep: the plan.
        folder: of the sweep.
        workers: runs that train at the same time.
        provenance: for the runs' `launch.json`, and the results.
        report: called with each run as it ends.

    Raises:
        ConfigError: the folder is in use or holds runs with other settings, or the candidates cannot be compared.
        CheckpointError: every candidate of a part failed.
    """
    with locked(folder):
        result = _run(sweep, folder, workers, provenance, report)
        _write(sweep, result, folder, provenance)
    return result


def _run(
    sweep: Sweep,
    folder: Path,
    workers: int,
    provenance: Mapping[str, Any],
    report: Callable[[SweepRun, TrainOutcome], None],
) -> SweepResult:
    alive = list(range(len(sweep.candidates)))
    longest: dict[int, RunGroup] = {}
    parts: dict[int, dict[int, RunGroup | str]] = {}
    for part in sweep.parts:
        runs = [run for candidate in alive[: part.candidates] for run in sweep.runs(candidate, part.steps)]
        errors = _train(sweep, runs, folder, workers, provenance, report)
        trials: dict[int, list[Trial]] = {}
        for each in runs:
            if each.candidate not in errors:
                trials.setdefault(each.candidate, []).append(trial(read(folder / each.subfolder)))
        if not trials:
            raise CheckpointError(f"every candidate failed; the first: {next(iter(errors.values()))}")
        groups = compare([one for group in trials.values() for one in group], sweep.by).groups
        ranked = {_candidate(group): group for group in groups}
        parts[part.steps] = {**ranked, **errors}
        longest |= ranked
        alive = list(ranked)
    comparison = compare([one for group in longest.values() for one in group.trials], sweep.by)
    return SweepResult(comparison, alive[0], parts)


def _train(
    sweep: Sweep,
    runs: Sequence[SweepRun],
    folder: Path,
    workers: int,
    provenance: Mapping[str, Any],
    report: Callable[[SweepRun, TrainOutcome], None],
) -> dict[int, str]:
    """Train the unfinished runs of a part; return candidate -> error of those that failed."""
    errors: dict[int, str] = {}
    todo = [run for run in runs if not finished(run, folder)]

    def launch(run: SweepRun) -> Mapping[str, Any]:
        return {"recipe": sweep.recipe, "overrides": list(run.overrides)}

    for ended, outcome in train_all(todo, folder, workers, launch, provenance):
        report(ended, outcome)
        if outcome.error:
            errors.setdefault(ended.candidate, one_line(outcome.error, 300))
    return errors


def _candidate(group: RunGroup) -> int:
    return int(group.trials[0].run.folder.name.partition("-")[0])


def _write(sweep: Sweep, result: SweepResult, folder: Path, provenance: Mapping[str, Any]) -> None:
    """Write the numbers, the figure and the recipe of the best candidate."""

    def described(candidate: int, group: RunGroup | str) -> dict[str, Any]:
        settings = {"candidate": candidate, "settings": list(sweep.candidates[candidate])}
        if isinstance(group, str):
            return settings | {"error": group}
        after = {trial.config.seed: trial.after.mean for trial in group.trials}
        return settings | {"before": group.before, "after": group.after, "after_by_seed": after}

    parts = [
        {"steps": steps, "candidates": [described(*each) for each in groups.items()]}
        for steps, groups in result.parts.items()
    ]
    found = {
        "format": 1,
        "recipe": sweep.recipe,
        "overrides": list(sweep.overrides),
        "seeds": list(sweep.seeds),
        "best": list(sweep.candidates[result.best]),
        "parts": parts,
        "provenance": dict(provenance),
    }
    replace_text(folder / RESULTS, json.dumps(found, indent=2) + "\n")
    write_figure(result.comparison, str(folder / FIGURE))
    replace_text(folder / BEST, dump(best_config(sweep, result.best)))


def best_config(sweep: Sweep, best: int) -> RunConfig:
    """Full config of a candidate, whose `tuning` holds the seeds and tasks of the sweep.

    Runs on those are refused in reports. The seed is the smallest that was not used.
    """
    overrides = (*sweep.overrides, *sweep.candidates[best])
    config = load(sweep.recipe, overrides)
    seeds = tuple(sorted({*config.tuning.seeds, *sweep.seeds}))
    tasks = tuple(dict.fromkeys((*config.tuning.tasks, config.eval.tasks or config.env.tasks)))
    unused = next(seed for seed in itertools.count() if seed not in seeds)
    return config.model_copy(update={"seed": unused, "tuning": TuningConfig(seeds=seeds, tasks=tasks)})
