"""Train the runs of a table's rows, then evaluate every team on the held-out problems.

Finished work is not repeated, so that a table can be stopped at any time; an interrupted run starts again from the
beginning.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from palaver.benchmarks.comparison.finished_runs import refuse
from palaver.benchmarks.evaluation.evaluate import EvaluationConfig, measure
from palaver.benchmarks.experiments.reasoning.plan import ReasoningPlan, TableLine, Training, trainings
from palaver.benchmarks.experiments.reasoning.results import RESULTS, Results, TeamSeedResult, load
from palaver.benchmarks.experiments.runner import finished, train_all
from palaver.benchmarks.reports.run_folder import number
from palaver.core import Sampling
from palaver.episodes import Episode
from palaver.registry import make
from palaver.trainers.config.run import EVAL_SEED
from palaver.trainers.run.files import METRICS
from palaver.trainers.run.logging import read_metrics
from palaver.utils.config import dump
from palaver.utils.run_folder import locked

RIGHT = "correct"  # the workflow's metric that scores the team's answer
Say = Callable[[str], None]


@dataclass(frozen=True)
class PendingTeams:
    """Unfinished work of a table in a folder.

    Attributes:
        plan: of the table.
        seeds: of its columns.
        folder: of the results.
        todo: runs still to be trained.
    """

    plan: ReasoningPlan
    seeds: tuple[int, ...]
    folder: Path
    todo: tuple[Training, ...]


def prepare(plan: ReasoningPlan, seeds: Sequence[int], folder: Path) -> PendingTeams:
    """Find the finished runs and mistakes in the settings; nothing is written.

    Raises:
        ConfigError: a recipe or a keyword that does not fit, or a folder that holds a run with other settings.
        TaskError: the problems cannot be read.
    """
    from palaver.trainers.train import prepare as check

    for recipe in plan.recipes:
        check(plan.config(recipe, seeds[0]))
    problems = [task.id for row in plan.rows for task in make(plan.env, **plan.played(row)).unwrapped.tasks]
    needed = trainings(plan, seeds)
    for training in needed:
        refuse(training.config, training.recipe, problems)
    return PendingTeams(
        plan, tuple(seeds), folder, tuple(training for training in needed if not finished(training, folder))
    )


def run(
    work: PendingTeams, workers: int, provenance: Mapping[str, Any], report: Say = lambda _: None
) -> tuple[Results, list[str]]:
    """Train and evaluate the unfinished teams; `results.json` is written after every team.

    Args:
        work: of `prepare`.
        workers: runs that train at the same time.
        provenance: with which versions.
        report: called with a progress message.

    Returns:
        The table, and a line for each failed run, whose teams are not in the table.

    Raises:
        ConfigError: the folder is in use by another process.
    """
    with locked(work.folder):
        failed = _train(work, workers, provenance, report)
        return _play(work, failed, provenance, report), list(failed.values())


def _train(work: PendingTeams, workers: int, provenance: Mapping[str, Any], report: Say) -> dict[tuple[str, int], str]:
    """Train the unfinished runs; returns (recipe, seed) -> error."""
    failed = {}
    for training, outcome in train_all(
        work.todo,
        work.folder,
        workers,
        lambda run: {"recipe": run.recipe, "overrides": [*work.plan.overrides, f"seed={run.seed}"]},
        provenance,
        checkpoints=True,
    ):
        name = f"{training.recipe}, seed {training.seed}"
        report(f"{name}: {outcome.error or f'trained in {outcome.cpu_s:.0f} CPU seconds'}")
        if outcome.error:
            failed[training.recipe, training.seed] = f"{name}: {outcome.error}"
    return failed


def _play(
    work: PendingTeams, failed: Mapping[tuple[str, int], str], provenance: Mapping[str, Any], report: Say
) -> Results:
    plan = work.plan
    tasks = tuple(task.id for task in make(plan.env, **plan.played(plan.rows[0])).unwrapped.tasks)
    known = load(work.folder).cells if (work.folder / RESULTS).is_file() else ()
    done = {(cell.row, cell.seed, cell.digest): cell for cell in known}
    names = tuple(row.name for row in plan.rows)
    after = {row.name: row.after for row in plan.rows if row.after}
    results = Results(plan.baseline, names, after, tasks, (), provenance)
    for seed in work.seeds:
        for row in plan.rows:
            if (row.recipe, seed) in failed:
                continue
            key = (row.name, seed, digest(plan, row, seed))
            if key not in done:
                done[key] = play(plan, row, seed, work.folder)
                report(f"{row.name}, seed {seed}: {sum(done[key].sampled) / len(tasks):.3f} right")
            results = replace(results, cells=(*results.cells, done[key]))
            results.save(work.folder)
    return results


def digest(plan: ReasoningPlan, row: TableLine, seed: int) -> str:
    """Hash of all that decides a team's answers, except the versions."""
    trained = dump(plan.config(row.recipe, seed)) if row.recipe else plan.model
    text = json.dumps([plan.env, plan.played(row), plan.max_tokens, trained, seed], sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def play(plan: ReasoningPlan, row: TableLine, seed: int, folder: Path) -> TeamSeedResult:
    """Evaluate a team on all problems, sampled and greedily.

    Raises:
        CheckpointError: its training run does not exist.
    """
    subfolder = Training(row.recipe, seed, plan.config(row.recipe, seed)).subfolder if row.recipe else None
    sampled, greedy = (
        measure(
            EvaluationConfig(
                plan.env,
                plan.played(row),
                f"run:{folder / subfolder}" if subfolder else plan.model,
                n=0,
                seed=EVAL_SEED + seed,
                sampling=Sampling(temperature, max_tokens=plan.max_tokens),
            )
        )[1]
        for temperature in (1.0, 0.0)
    )
    tokens, cpu = spent(folder / subfolder) if subfolder else (0, 0.0)
    return TeamSeedResult(
        row.name, seed, digest(plan, row, seed), right(sampled), right(greedy), written(sampled), tokens, cpu
    )


def right(episodes: Sequence[Episode]) -> tuple[float, ...]:
    """Scores of the team's last answers, by episode."""
    return tuple(episode.turns[-1].metrics[RIGHT] for episode in episodes)


def written(episodes: Sequence[Episode]) -> float:
    """Mean number of tokens of an episode, over all agents and turns."""
    return fmean(
        sum(len(u.token_ids) for turn in episode.turns for u in turn.completions.values()) for episode in episodes
    )


def spent(run: Path) -> tuple[int, float]:
    """Number of training tokens that a run sampled, and its CPU seconds."""
    lines = [line for line in read_metrics(run / METRICS) if line.get("kind") == "train"]
    return int(sum(number(line, "sampled_tokens") or 0.0 for line in lines)), number(lines[-1], "cpu_s") or 0.0
