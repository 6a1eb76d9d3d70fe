"""Conventions that two agents converge to in a run of `coding-mini-v0`.

A convention is a use of the helper function `aux`, which both agents must agree on: `map`, `test` or `list`. The report
has programs that fail before training, programs for the same problems after it, and the share of each convention during
training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from palaver.benchmarks.reports.charts import moving_mean, window_of
from palaver.benchmarks.reports.run_folder import RunFolder
from palaver.benchmarks.reports.summary import EvaluationPoint, score
from palaver.episodes import Episode
from palaver.utils.stats.pass_at_k import SOLVED

ENV = "coding-mini-v0"
AGENTS = ("aux", "main")
CONVENTIONS = ("map", "test", "list")


@dataclass(frozen=True)
class ProgramPair:
    """Code of both agents for one problem.

    Attributes:
        task: id of the task.
        description: description of the function to write.
        completions: agent -> its code.
        reason: explanation of the reward: the tests passed, and the first that failed.
        solved: True if all tests passed.
    """

    task: str
    description: str
    completions: Mapping[str, str]
    reason: str
    solved: bool


@dataclass(frozen=True)
class TrainingMoment:
    """Moving means at one step of training.

    Attributes:
        step: the step.
        reward: mean reward.
        solved: share of tasks solved.
        shares: agent -> convention -> share of its programs that use it.
    """

    step: int
    reward: float
    solved: float
    shares: Mapping[str, Mapping[str, float]]


def failing_pairs(run: RunFolder, n: int) -> list[ProgramPair]:
    """Return the first `n` pairs that fail in the evaluation before training."""
    before = score(run).before
    pairs = [_pair(episode) for episode in run.episodes(before.step)] if before else []
    return [pair for pair in pairs if not pair.solved][:n]


def pairs_after_training(run: RunFolder, pairs: list[ProgramPair]) -> list[ProgramPair]:
    """Pairs of the same problems in the last evaluation, in order.

    Problems without an episode are left out.
    """
    after = score(run).after
    episodes = run.episodes(after.step) if after else []
    pair_of_task = {episode.task: _pair(episode) for episode in reversed(episodes)}  # the first episode of each task
    return [pair_of_task[pair.task] for pair in pairs if pair.task in pair_of_task]


def training_moments(run: RunFolder, n: int) -> list[TrainingMoment]:
    """Return `n` evenly spaced moments, with the first and the last step.

    With fewer than `n` steps there is one moment per step.
    """
    metrics = [*(f"{agent}_{name}" for agent in AGENTS for name in CONVENTIONS), SOLVED]
    steps, rewards = run.series("reward/mean")
    series = {metric: run.series(f"metric/{metric}")[1] for metric in metrics}
    if not steps or any(len(values) != len(steps) for values in series.values()):
        return []
    window = window_of(len(steps))
    mean_reward = moving_mean(rewards, window)
    means = {metric: moving_mean(values, window) for metric, values in series.items()}
    indices = sorted({round(k * (len(steps) - 1) / max(1, n - 1)) for k in range(n)})
    return [
        TrainingMoment(
            steps[index],
            float(mean_reward[index]),
            float(means[SOLVED][index]),
            {agent: {name: float(means[f"{agent}_{name}"][index]) for name in CONVENTIONS} for agent in AGENTS},
        )
        for index in indices
    ]


def conventions_of(point: EvaluationPoint | None) -> dict[str, str]:
    """Most frequent convention of each agent in an evaluation, with its share, as `map 75%`.

    Agents without recorded shares are left out.
    """
    metrics = point.line.get("metrics", {}) if point else {}
    conventions = {}
    for agent in AGENTS:
        shares = {name: float(metrics.get(f"{agent}_{name}", 0.0)) for name in CONVENTIONS}
        name, share = max(shares.items(), key=lambda item: item[1])
        if share:
            conventions[agent] = f"{name} {share:.0%}"
    return conventions


def solved_of(point: EvaluationPoint | None) -> str:
    """Number of tasks solved in an evaluation, as `57 of 60`; "–" if it was not recorded."""
    share = point.line.get("metrics", {}).get(SOLVED) if point else None
    return f"{round(share * point.n)} of {point.n}" if point and share is not None else "–"


def _pair(episode: Episode) -> ProgramPair:
    last_turn = episode.turns[-1]
    return ProgramPair(
        episode.task,
        next(iter(episode.turns[0].observations.values()), "").rpartition("\n")[
            2
        ],  # the description is the last line of the prompt
        {agent: completion.text for agent, completion in last_turn.completions.items()},
        last_turn.reason,
        last_turn.metrics.get(SOLVED) == 1.0,
    )
