"""Conventions that two agents converge to in a run of `coding-mini-v0`: failing pairs, the same problems after
training, and the shares of the conventions during training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from palaver.benchmarks.reports.charts import moving_mean, window_of
from palaver.benchmarks.reports.run_folder import RunFolder
from palaver.benchmarks.reports.summary import EvaluationPoint, score
from palaver.core import Episode
from palaver.utils.stats.pass_at_k import SOLVED

ENV = "coding-mini-v0"
SEATS = ("aux", "main")
CONVENTIONS = ("map", "test", "list")


@dataclass(frozen=True)
class ProgramPair:
    """Code of both agents for one problem.

    Attributes:
        task: id.
        description: description of the function.
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
class Moment:
    """Moving means at a step of training: reward, share of tasks solved, and agent -> convention -> share."""

    step: int
    reward: float
    solved: float
    shares: Mapping[str, Mapping[str, float]]


def failing(run: RunFolder, n: int) -> list[ProgramPair]:
    """Return the first `n` failing pairs before training, in order."""
    before = score(run).before
    pairs = [_pair(episode) for episode in run.episodes(before.step)] if before else []
    return [pair for pair in pairs if not pair.solved][:n]


def again(run: RunFolder, pairs: list[ProgramPair]) -> list[ProgramPair]:
    """The same problems after training, in the same order; those without an episode are left out."""
    after = score(run).after
    later = {episode.task: _pair(episode) for episode in reversed(run.episodes(after.step))} if after else {}
    return [later[pair.task] for pair in pairs if pair.task in later]


def moments(run: RunFolder, n: int) -> list[Moment]:
    """`n` moments of training, evenly spaced, the first and the last among them; fewer where it was shorter."""
    names = [f"{agent}_{name}" for agent in SEATS for name in CONVENTIONS]
    steps, reward = run.series("reward/mean")
    series = {name: run.series(f"metric/{name}")[1] for name in [*names, SOLVED]}
    if not steps or any(len(values) != len(steps) for values in series.values()):
        return []
    window = window_of(len(steps))
    smooth = {name: moving_mean(values, window) for name, values in series.items()}
    rewards = moving_mean(reward, window)
    places = sorted({round(k * (len(steps) - 1) / max(1, n - 1)) for k in range(n)})
    return [
        Moment(
            steps[at],
            float(rewards[at]),
            float(smooth[SOLVED][at]),
            {agent: {name: float(smooth[f"{agent}_{name}"][at]) for name in CONVENTIONS} for agent in SEATS},
        )
        for at in places
    ]


def settled(point: EvaluationPoint | None) -> dict[str, str]:
    """Map each agent to its most frequent held-out convention with its share; empty if nothing was recorded."""
    metrics = point.line.get("metrics", {}) if point else {}
    conventions = {}
    for agent in SEATS:
        shares = {name: float(metrics.get(f"{agent}_{name}", 0.0)) for name in CONVENTIONS}
        best = max(shares, key=lambda name: shares[name])
        if shares[best]:
            conventions[agent] = f"{best} {shares[best]:.0%}"
    return conventions


def solved_of(point: EvaluationPoint | None) -> str:
    """`57 of 60`, or "–"."""
    share = point.line.get("metrics", {}).get(SOLVED) if point else None
    return f"{round(share * point.n)} of {point.n}" if point and share is not None else "–"


def _pair(episode: Episode) -> ProgramPair:
    turn = episode.turns[-1]
    observation = next(iter(episode.turns[0].observations.values()), "")
    return ProgramPair(
        episode.task,
        observation.rpartition("\n")[2],
        {agent: completion.text for agent, completion in turn.completions.items()},
        turn.reason,
        turn.metrics.get(SOLVED) == 1.0,
    )
