"""Rescoring of stored episodes by stepping an environment with the recorded texts.

The environment is the current version, or one with other keywords.

The result compares the rewards before and after. The completions are the recorded ones, so in an environment whose
observations have changed they answer other prompts. Such episodes are counted, and the result names them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

from palaver.benchmarks.evaluation import results as rows
from palaver.benchmarks.evaluation.evaluate import scoring
from palaver.benchmarks.evaluation.focal import FocalRound, focal
from palaver.benchmarks.reports.run_folder import read
from palaver.benchmarks.reports.summary import most_possible
from palaver.core import ConfigError, ScoringError
from palaver.episodes import Episode
from palaver.registry import spec
from palaver.trainers.rollout.episodes import ready_env, text_env
from palaver.trainers.rollout.evaluation import summarize
from palaver.trainers.rollout.replays import again
from palaver.trainers.run.files import CONFIG
from palaver.utils.provenance import provenance
from palaver.utils.stats.intervals import over_tasks

SAME = 1e-9  # returns closer than this are equal


@dataclass(frozen=True)
class EpisodeSource:
    """Stored episodes with their environment, its keywords, and their row.

    The keywords are None if neither a row nor a run records them.
    """

    episodes: list[Episode]
    sha256: str
    env: str
    keywords: Mapping[str, Any] | None
    row: rows.EvaluationResult | None


@dataclass(frozen=True)
class RescoreResult:
    """Change of the returns.

    `before` and `after` are mean team returns over the episodes scored in both.

    Attributes:
        difference: mean over tasks of after - before, the samples of a task averaged first.
        low: lower end of its 95 % bootstrap interval over tasks; None for one task.
        high: upper end.
        n: episodes compared.
        changed: number of these with other rewards.
        reobserved: episodes in which an observation now differs from the recorded one.
        ended: episodes that now end earlier, or that the environment does not end any more.
        unscored: episodes left out, as they have no score before or after.
        scoring: usage of a judge or a reward model.
    """

    before: float
    after: float
    difference: float
    low: float | None
    high: float | None
    n: int
    changed: int
    reobserved: int
    ended: int
    unscored: int
    scoring: Mapping[str, float] = field(default_factory=dict)


def source(path: Path, env: str = "") -> EpisodeSource:
    """Read episodes with the row next to `NAME.jsonl.gz` or the config of their run.

    Args:
        path: a JSON-lines file, packed or not, or a row's `NAME.json`.
        env: id, if it is not the one that the episodes name.

    Raises:
        ConfigError: a file cannot be read, holds no episodes or those of several environments, or the row next to it
            belongs to others.
    """
    row_file = path if path.suffix == rows.ROW else path.with_name(path.name.partition(".jsonl")[0] + rows.ROW)
    row = rows.load(row_file) if row_file.is_file() else None
    if path.suffix == rows.ROW:
        if row is None:
            raise ConfigError(f"there is no row {str(path)!r}")
        path = path.with_name(row.episodes.file)
    episodes, sha256 = rows.read_episodes(path)
    if row is not None and sha256 != row.episodes.sha256:
        raise ConfigError(f"{str(path)!r} does not hold the episodes that the row {row_file.name!r} was made of")
    names = {episode.env for episode in episodes}
    if len(names) != 1:
        held = f"those of {', '.join(sorted(names))}" if names else "none"
        raise ConfigError(f"{str(path)!r} must hold episodes of one environment; it holds {held}")
    id = spec(env).id if env else row.env if row is not None else spec(next(iter(names))).id
    return EpisodeSource(episodes, sha256, id, _keywords(path, row), row)


def _keywords(path: Path, row: rows.EvaluationResult | None) -> Mapping[str, Any] | None:
    """Keywords of the row, or of the run whose `episodes` folder contains the file."""
    if row is not None:
        return row.keywords
    folder = path.resolve().parent.parent
    if path.resolve().parent.name == "episodes" and (folder / CONFIG).is_file():
        config = read(folder).config
        if config is not None:
            return config.env.keywords(config.eval.tasks if path.name.startswith("eval-") else None)
    return None


def rescore(
    source: EpisodeSource, keywords: Mapping[str, Any], workers: int = 1
) -> tuple[RescoreResult, list[Episode]]:
    """Replay all episodes with `keywords`; those of the recording are in the source.

    Raises:
        ConfigError: no such environment or keyword.
        TaskError: a task no longer exists.
        ScoringError: nothing can be compared, as all episodes are unscored.
    """
    env = ready_env(source.env, keywords)
    if source.episodes[0].env != env.metadata["name"]:
        raise ConfigError(f"the episodes are of {source.episodes[0].env}, not of {env.metadata['name']}")
    played = again(env, source.episodes, workers)
    return replace(compare(source.episodes, played), scoring=scoring(env)), played


def compare(before: Sequence[Episode], after: Sequence[Episode]) -> RescoreResult:
    """Compare two scorings of the same episodes.

    Raises:
        ScoringError: no episode is scored in both.
    """
    pairs = list(zip(before, after, strict=True))
    both = [(old, new) for old, new in pairs if old.scored and new.scored]
    if not both:
        raise ScoringError(f"none of the {len(pairs)} episodes is scored both before and after, so nothing compares")
    old_mean, new_mean = summarize([old for old, _ in both]), summarize([new for _, new in both])
    differences: dict[str, list[float]] = defaultdict(list)
    for old, new in both:
        differences[old.task].append(new.team_return() - old.team_return())
    means = np.array([float(np.mean(values)) for values in differences.values()])
    low, high = over_tasks(means)
    return RescoreResult(
        before=old_mean.mean,
        after=new_mean.mean,
        difference=float(means.mean()),
        low=low,
        high=high,
        n=len(both),
        changed=sum(abs(new.team_return() - old.team_return()) > SAME for old, new in both),
        reobserved=sum(
            any(
                dict(was.observations) != dict(now.observations) for was, now in zip(old.turns, new.turns, strict=False)
            )
            for old, new in pairs
        ),
        ended=sum(len(new.turns) != len(old.turns) or new.stop != old.stop for old, new in both),
        unscored=len(pairs) - len(both),
    )


def new_row(
    source: EpisodeSource,
    keywords: Mapping[str, Any],
    episodes: Sequence[Episode],
    label: str,
    folder: Path,
    took: Mapping[str, float] = MappingProxyType({}),
) -> rows.EvaluationResult:
    """Store a second scoring as a row with the first as its parent.

    `took` is the usage of its judge or reward model.

    Raises:
        ConfigError: the episodes have no row of their own to take the rest from, or something cannot be written.
    """
    old = source.row
    if old is None:
        raise ConfigError("these episodes have no row in their folder, which a new row needs")
    if old.focal is not None and old.focal.silent is not None:
        raise ConfigError("the row's score is what its agents added to silence; evaluate its scenario again instead")
    summary = summarize(episodes)
    focus = None
    if old.focal is not None:
        size = len(episodes) // len(old.focal.seatings)
        parts = [episodes[start : start + size] for start in range(0, len(episodes), size)]
        focus = focal(parts, [FocalRound(seats) for seats in old.focal.seatings]).model_dump()
    env = text_env(source.env, keywords)
    max_return = old.max_reward if env.max_return is None else rows.finite(most_possible(env, spec(old.env)))
    changed = {
        "keywords": dict(keywords),
        "made_with": provenance(),
        "mean": summary.mean,
        "low": summary.low,
        "high": summary.high,
        "n": summary.n,
        "focal": focus,
        "max_reward": max_return,
        "components": dict(summary.components),
        "metrics": dict(summary.metrics),
        "by_task": dict(summary.by_task),
        "passes": dict(summary.passes),
        "unscored": summary.unscored,
        "scoring": dict(took),
        "config": rows.config_hash(parent=old.config, keywords=dict(keywords)),
        "parent": f"{old.name} {old.episodes.sha256}",
    }
    return rows.write_row(old.model_dump() | changed, source.env, episodes, label, folder)
