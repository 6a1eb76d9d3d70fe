"""Evaluation on fixed tasks with fixed seeds, and its summary with interval and n."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from palaver.agents.base.policy import Policy
from palaver.core import Sampling
from palaver.envs.base.env import TextEnv
from palaver.envs.base.questions import calibration_error
from palaver.episodes import Episode, only_scored
from palaver.trainers.rollout.episodes import SamplingPlan, rollout
from palaver.utils.stats.intervals import over_tasks
from palaver.utils.stats.pass_at_k import passes


@dataclass(frozen=True, slots=True)
class Summary:
    """Summary statistics of a set of episodes.

    Attributes:
        mean: mean undiscounted team return.
        low: lower end of the 95 % bootstrap interval over tasks; None for one task.
        high: upper end, likewise.
        n: episodes.
        tasks: distinct tasks; the samples of one task are averaged before resampling, as they are not independent.
        components: mean of each reward component, over agents and episodes, summed over turns.
        metrics: mean of each metric of the environment, over turns.
        tokens: agent -> mean sampled tokens of a completion.
        passes: pass@1 and pass@k if the environment reports which episodes solved their task, else empty.
        unscored: episodes left out because their scoring failed.
        by_task: task -> mean team return of its samples, so that two evaluations can be compared task by task.
    """

    mean: float
    low: float | None
    high: float | None
    n: int
    tasks: int
    components: Mapping[str, float]
    metrics: Mapping[str, float]
    tokens: Mapping[str, float]
    by_task: Mapping[str, float]
    passes: Mapping[str, float] = field(default_factory=dict)
    unscored: int = 0

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def evaluate(
    env: TextEnv,
    team: Mapping[str, Policy],
    tasks: Sequence[str],
    *,
    samples: int,
    sampling: Mapping[str, Sampling],
    seed: int,
    workers: int = 1,
    places: Sequence[int] | None = None,
) -> list[Episode]:
    """Play `samples` independent episodes of every task; deterministic in its arguments.

    An environment that draws after its reset draws the same in all samples of a task: they are forks of one reset.
    `places` are the indices of the tasks, as in `rollout`.
    """
    plan = SamplingPlan(group_size=samples, turns="independent")
    return rollout(env, team, tasks, plan, sampling=sampling, seed=seed, workers=workers, places=places)


def summarize(episodes: Sequence[Episode]) -> Summary:
    """Mean team return with a 95 % bootstrap interval over tasks (Efron 1979), and other means.

    Raises:
        ValueError: there are no episodes.
        ScoringError: none of them could be scored.
    """
    if not episodes:
        raise ValueError("there are no episodes to summarize")
    all_of_them, episodes = len(episodes), only_scored(episodes, "in the evaluation")
    returns: dict[str, list[float]] = defaultdict(list)
    for episode in episodes:
        returns[episode.task].append(episode.team_return())
    by_task = {task: float(np.mean(values)) for task, values in returns.items()}
    means = np.array(list(by_task.values()))
    low, high = over_tasks(means)
    return Summary(
        mean=float(means.mean()),
        low=low,
        high=high,
        n=len(episodes),
        tasks=len(by_task),
        components=components(episodes),
        metrics=metrics(episodes),
        tokens=tokens(episodes),
        by_task=by_task,
        passes=passes(episodes),
        unscored=all_of_them - len(episodes),
    )


def components(episodes: Sequence[Episode]) -> dict[str, float]:
    """Mean over episodes of each reward component, averaged over agents and summed over turns.

    They add up to the mean return.
    """
    total: dict[str, float] = defaultdict(float)
    for episode in episodes:
        for turn in episode.turns:
            for parts in turn.components.values():
                for name, value in parts.items():
                    total[name] += value / len(turn.components)
    return {name: value / len(episodes) for name, value in total.items()}


def tokens(episodes: Sequence[Episode]) -> dict[str, float]:
    """Agent -> mean number of sampled tokens of a completion, calls of tools included."""
    token_counts: dict[str, list[int]] = defaultdict(list)
    for episode in episodes:
        for turn in episode.turns:
            for agent, completion in turn.completions.items():
                token_counts[agent].append(completion.sampled_tokens)
    return {agent: float(np.mean(counts)) for agent, counts in token_counts.items()}


def answers(episodes: Sequence[Episode], agents: Collection[str] | None = None) -> tuple[int, int]:
    """Return the number of answers that were due, and of those with an illegal move.

    If an environment does not attribute the illegal moves of a turn to agents, each counts for another answer, up to
    the number of answers.

    Args:
        episodes: any episodes.
        agents: agents whose answers count; None: all.
    """
    due = illegal = 0
    for turn in (turn for episode in episodes for turn in episode.turns):
        answering = [agent for agent in turn.completions if agents is None or agent in agents]
        moves = int(turn.metrics.get("illegal", 0))
        due += len(answering)
        illegal += sum(agent in turn.illegal for agent in answering) if turn.illegal else min(moves, len(answering))
    return due, illegal


def metrics(episodes: Sequence[Episode]) -> dict[str, float]:
    """Mean over turns of each metric of the environment, and the calibration of guesses."""
    values: dict[str, list[float]] = defaultdict(list)
    for episode in episodes:
        for turn in episode.turns:
            for name, value in turn.metrics.items():
                values[name].append(value)
    return {name: float(np.mean(numbers)) for name, numbers in values.items()} | calibration(episodes)


def calibration(episodes: Sequence[Episode]) -> dict[str, float]:
    """Calibration error of all guesses of each order; empty without stated probabilities."""
    guesses: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for turn in (turn for episode in episodes for turn in episode.turns):
        for name, confidence in turn.metrics.items():
            prefix, middle, agent = name.partition("/confidence/")
            if middle:
                guesses[f"{prefix}/calibration"].append((confidence, turn.metrics[f"{prefix}/accuracy/{agent}"]))
    return {name: calibration_error(pairs) for name, pairs in guesses.items()}
