"""Finished runs reduced to the data of a comparison.

The data are the same from a run folder and from its export.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import palaver
from palaver.benchmarks.reports.run_folder import RunFolder, number, numbers, read
from palaver.benchmarks.reports.summary import EvaluationPoint, score
from palaver.core import CheckpointError, ConfigError
from palaver.trainers.config.run import RunConfig
from palaver.trainers.rollout.evaluation import summarize
from palaver.trainers.run.files import CONFIG, METRICS


@dataclass(frozen=True)
class Trial:
    """One run that was evaluated before and after training.

    Attributes:
        run: contents of its folder.
        config: of the run.
        lines: its train lines in order of step, each with a reward.
        samples: completions sampled to learn from, up to and with each of the lines.
        before: the evaluation before training.
        after: the last one.
        by_task: task -> mean return after less before; empty if the tasks' returns are unknown.
        after_by_task: task -> mean return of the last evaluation; empty if unknown.
    """

    run: RunFolder
    config: RunConfig
    lines: tuple[Mapping[str, Any], ...]
    samples: tuple[float, ...]
    before: EvaluationPoint
    after: EvaluationPoint
    by_task: Mapping[str, float]
    after_by_task: Mapping[str, float]

    @property
    def name(self) -> str:
        """The folder."""
        return str(self.run.folder)

    def spent(self, key: str) -> float:
        """Seconds until the last update, by `wall_s` or `cpu_s`."""
        return number(self.lines[-1], key) or 0.0


def find(paths: Iterable[Path]) -> tuple[list[Trial], list[str]]:
    """Find the runs at these paths: run folders, or folders of run folders.

    Unfinished runs in a folder of run folders are skipped.

    Returns:
        The runs, each once, and a line for each that was left out.

    Raises:
        CheckpointError: a path that is no run and holds none, or a run named that is not finished.
    """
    trials: dict[Path, Trial] = {}
    left: list[str] = []
    for path in paths:
        if not path.is_dir():
            raise CheckpointError(f"there is no run folder {str(path)!r}")
        inside = [path] if _is_run(path) else sorted(folder for folder in path.iterdir() if _is_run(folder))
        if not inside:
            raise CheckpointError(f"there is no run in {str(path)!r}: neither it nor a folder in it holds {METRICS}")
        for folder in inside:
            try:
                trials.setdefault(folder.resolve(), trial(read(folder)))
            except CheckpointError as error:
                if folder is path:
                    raise
                left.append(str(error))
    if not trials:
        raise CheckpointError(f"no run is finished: {left[0]}")
    return list(trials.values()), left


def _is_run(folder: Path) -> bool:
    return (folder / CONFIG).is_file() or (folder / METRICS).is_file()


def trial(run: RunFolder) -> Trial:
    """Reduce a run to the data of a comparison.

    Raises:
        CheckpointError: its config or its metrics are missing, it was not evaluated before and after training, or its
            settings were chosen on its seed or its tasks.
    """
    where = repr(str(run.folder))
    if run.config is None:
        raise CheckpointError(f"{where} cannot be compared: {run.notes[0]}")
    lines = tuple(line for line in run.train if number(line, "reward/mean") is not None)
    if not lines:
        raise CheckpointError(f"{where} cannot be compared: its {METRICS} holds no step of training")
    evaluation, planned = score(run), run.config.train.steps
    if run.step < planned:
        raise CheckpointError(f"{where} cannot be compared: it is not finished, at step {run.step} of {planned}")
    if evaluation.before is None or evaluation.after is None:
        missing = "before" if evaluation.before is None else "after"
        raise CheckpointError(f"{where} cannot be compared: it has no evaluation {missing} training")
    before, after = returns_by_task(run, evaluation.before), returns_by_task(run, evaluation.after)
    if why := complaint(run.config, before.keys() | after.keys() or None):
        raise CheckpointError(f"{where} cannot be compared: {why}")
    differences = {task: after[task] - before[task] for task in before} if before.keys() == after.keys() else {}
    return Trial(run, run.config, lines, _samples(run, lines), evaluation.before, evaluation.after, differences, after)


def returns_by_task(run: RunFolder, point: EvaluationPoint) -> dict[str, float]:
    """Map tasks to mean returns of an evaluation, from its metrics or else its episodes.

    Empty if neither has them.
    """
    returns = numbers(point.line.get("by_task"))
    if returns:
        return returns
    episodes = run.episodes(point.step)
    return dict(summarize(episodes).by_task) if len(episodes) == point.n > 0 else {}


def _samples(run: RunFolder, lines: Sequence[Mapping[str, Any]]) -> tuple[float, ...]:
    """Sampled completions up to each line; if not recorded, the completions trained on.

    With a shared policy the latter are counted once, not once per agent.
    """
    agents = run.agents[:1] if run.config is not None and run.config.team.kind == "shared" else run.agents
    total, totals = 0.0, []
    for line in lines:
        counted = number(line, "completions")
        total += sum(number(line, f"{agent}/rows") or 0.0 for agent in agents) if counted is None else counted
        totals.append(total)
    return tuple(totals)


def scene(config: RunConfig) -> str:
    """The environment with its keywords but the tasks: equal if returns are comparable."""
    return json.dumps([config.env.id, config.env.model_extra], sort_keys=True, default=str)


def complaint(config: RunConfig, evaluated: Collection[str] | None = None) -> str:
    """Return the reason not to report a run, in one line.

    The reason is "" if the run was tuned on other seeds and other tasks.

    Args:
        config: of the run.
        evaluated: ids of the tasks of the result; None: of the evaluation that the config describes.

    Raises:
        TaskError: the tasks of `tuning.tasks` cannot be read.
    """
    if config.seed in config.tuning.seeds:
        return f"its settings were chosen on seed {config.seed} (tuning.seeds); report other seeds"
    chosen_on = {task for source in config.tuning.tasks for task in _ids(config, source)}
    if not chosen_on:
        return ""
    if evaluated is None:
        evaluated = _ids(config, config.eval.tasks)[: config.eval.n]
    both = sorted(chosen_on & set(evaluated))
    if not both:
        return ""
    return f"its settings were chosen on {len(both)} of its tasks, {both[0]!r} among them (tuning.tasks)"


def refuse(config: RunConfig, where: str, evaluated: Collection[str] | None = None) -> None:
    """Refuse a run as a reported row.

    Raises:
        ConfigError: see `complaint`; the line begins with `where`.
    """
    if why := complaint(config, evaluated):
        raise ConfigError(f"{where} cannot be reported: {why}")


def _ids(config: RunConfig, tasks: str | None) -> list[str]:
    """The ids of the tasks of a source; None: those that training draws from."""
    return [task.id for task in palaver.make(config.env.id, **config.env.keywords(tasks)).unwrapped.tasks]
