"""Evaluate a team on fixed tasks with fixed seeds. A result names everything that is needed to get it again."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from palaver.agents.llm.options import ModelOptions
from palaver.benchmarks.provenance import provenance
from palaver.benchmarks.runs import read
from palaver.benchmarks.summary import most_possible
from palaver.core import Episode, Sampling, TaskError
from palaver.registry import spec
from palaver.trainers.config import EVAL_SEED
from palaver.trainers.evaluation import evaluate, summarize
from palaver.trainers.rollout import text_env
from palaver.trainers.team import parse_team


@dataclass(frozen=True)
class Setting:
    """What is to be evaluated.

    Attributes:
        env: id.
        keywords: of the environment, `tasks` among them.
        team: as `parse_team` reads it: `tiny`, `a=hf:X,b=random`, `run:FOLDER`, ….
        n: the first n tasks; 0 takes all.
        samples: episodes per task.
        seed: of every draw.
        sampling: how models draw their tokens.
        own: seat -> how it draws, where it has a way of its own.
        options: how models are loaded.
        force: let the tiny model run on real data.
    """

    env: str
    keywords: Mapping[str, Any] = field(default_factory=dict)
    team: str = "tiny"
    n: int = 32
    samples: int = 1
    seed: int = EVAL_SEED
    sampling: Sampling = field(default_factory=Sampling)
    own: Mapping[str, Sampling] = field(default_factory=dict)
    options: ModelOptions = field(default_factory=ModelOptions)
    force: bool = False


@dataclass(frozen=True)
class Result:
    """What came out. `mean`, `low` and `high` are the mean team return and its 95 % bootstrap interval over tasks; one
    task has none.

    `policies` says who sat where, for the team of a run with the step of its checkpoint. `tokens` holds agent -> mean
    sampled tokens of an answer, `passes` pass@1 and pass@k where the environment tells what was solved, `unscored` how
    many episodes were left out because nothing could judge them; `seconds` is the wall time of the episodes alone, and
    `provenance` says with which versions.
    """

    env: str
    keywords: Mapping[str, Any]
    team: str
    policies: Mapping[str, str]
    tasks: int
    samples: int
    seed: int
    sampling: Mapping[str, Any]
    mean: float
    low: float | None
    high: float | None
    n: int
    max_reward: float
    components: Mapping[str, float]
    metrics: Mapping[str, float]
    tokens: Mapping[str, float]
    passes: Mapping[str, float]
    unscored: int
    seconds: float
    provenance: Mapping[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return asdict(self)


def as_trained(team: str, env: str) -> tuple[dict[str, Any], Sampling, dict[str, Sampling]]:
    """What the team of `run:FOLDER` knows, if it was trained on `env`: the keywords, with held-out tasks, how it
    samples, and how the seats of a heterogeneous team do. Nothing and the defaults for other teams.

    Raises:
        CheckpointError: there is no such run folder.
    """
    config = read(team.removeprefix("run:")).config if team.startswith("run:") else None
    if config is None or spec(config.env.id).id != spec(env).id:
        return {}, Sampling(), {}
    seats = _moved(Path(team.removeprefix("run:"))) if config.team.seats and config.team.swap_every else {}
    own = {seats.get(agent, agent): config.seat(agent).sampling() for agent in config.team.seats}
    return config.env.keywords(config.eval.tasks), config.policy.sampling(), own


def _moved(folder: Path) -> dict[str, str]:
    """Where each policy of a run's newest sound checkpoint began -> the seat it was last in."""
    from palaver.trainers import checkpoint

    return {home: seat for seat, home in checkpoint.seats_of(checkpoint.newest(folder)[0]).items()}


def measure(setting: Setting, note: Callable[[str], None] = lambda _: None) -> tuple[Result, list[Episode]]:
    """Play the episodes and summarise them; `note` is told what the user should know, as that a checkpoint is corrupt.

    Raises:
        ConfigError: no such environment or keyword.
        TaskError: the tasks cannot be read, or there are none.
        PolicyError: the team cannot be made.
    """
    found = spec(setting.env)
    env = text_env(setting.env, setting.keywords)
    ids = [task.id for task in env.tasks][: setting.n or None]
    if not ids:
        raise TaskError(f"there are no tasks to evaluate in {env.source!r}")
    seats = env.possible_agents
    team = parse_team(setting.team, found, seats, setting.options, env.source, setting.force, note)
    start = time.perf_counter()
    sampling = dict.fromkeys(seats, setting.sampling) | dict(setting.own)
    episodes = evaluate(env, team, ids, samples=setting.samples, sampling=sampling, seed=setting.seed)
    seconds = time.perf_counter() - start
    summary = summarize(episodes)
    result = Result(
        env=found.id,
        keywords=dict(setting.keywords),
        team=setting.team,
        policies={agent: policy.name for agent, policy in team.items()},
        tasks=len(ids),
        samples=setting.samples,
        seed=setting.seed,
        sampling=asdict(setting.sampling) | {seat: asdict(own) for seat, own in setting.own.items()},
        mean=summary.mean,
        low=summary.low,
        high=summary.high,
        n=summary.n,
        max_reward=most_possible(env, found),
        components=dict(summary.components),
        metrics=dict(summary.metrics),
        tokens=dict(summary.tokens),
        passes=dict(summary.passes),
        unscored=summary.unscored,
        seconds=seconds,
        provenance=provenance(),
    )
    return result, episodes
