"""Stored episodes as a log that Inspect's viewer opens."""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from inspect_ai.log import (
    EvalConfig,
    EvalDataset,
    EvalLog,
    EvalMetric,
    EvalPlan,
    EvalResults,
    EvalSample,
    EvalScore,
    EvalSpec,
    write_eval_log,
)
from inspect_ai.model import ModelConfig, ModelOutput
from inspect_ai.scorer import Score
from inspect_ai.viewer import ViewerConfig

from palaver.benchmarks.doors.inspect_ai.transcripts import EPISODE, messages_of, scores_of, task_name
from palaver.benchmarks.evaluation.results import read_episodes
from palaver.core import ConfigError, stable_seed
from palaver.episodes import Episode
from palaver.utils.provenance import version
from palaver.utils.run_folder import WRITING, writing

Returns = Mapping[str, Sequence[float]]  # task -> returns of its episodes


def export_episodes(path: Path, out: Path) -> int:
    """Write the episodes of a JSON-lines file as a log of Inspect.

    A task is a sample, its episodes are epochs. What models wrote is marked as not trusted, so that the viewer shows it
    as plain text.

    Args:
        path: of the episodes, packed by gzip or not.
        out: the log, with the suffix `.eval`, or `.json`.

    Returns:
        Number of episodes.

    Raises:
        ConfigError: there are no episodes, or those of several environments, or the log has another suffix or no place.
    """
    if out.suffix not in (".eval", ".json"):
        raise ConfigError(f"{str(out)!r} is no name of a log: end it with .eval, or .json")
    episodes, digest = read_episodes(path)
    ids = {episode.env.replace("_", "-") for episode in episodes}
    if len(ids) != 1:
        found = f"has episodes of {', '.join(sorted(ids))}: export one environment" if ids else "has no episodes"
        raise ConfigError(f"{str(path)!r} {found}")
    with writing(out.parent):
        temporary = out.with_name(f"{WRITING}{out.name}")  # the suffix is the format
        write_eval_log(_log(episodes, ids.pop(), path.name, digest), temporary)
        temporary.replace(out)
    return len(episodes)


def _log(episodes: Sequence[Episode], id: str, name: str, digest: str) -> EvalLog:
    now = datetime.now(UTC).isoformat(timespec="seconds")
    team = {agent: policy for episode in episodes for agent, policy in episode.team.items()}
    policies = list(dict.fromkeys(team.values()))
    samples = _samples(episodes)
    tasks = list(dict.fromkeys(str(sample.id) for sample in samples))
    unscored = sum(not sample.scores for sample in samples)
    return EvalLog(
        status="success",
        eval=EvalSpec(
            eval_id=f"{stable_seed(digest):016x}",
            created=now,
            task=f"palaver/{task_name(id)}",
            task_version=id.rpartition("-v")[2],
            dataset=EvalDataset(name=name, samples=len(tasks), sample_ids=tasks),
            model=policies[0] if len(policies) == 1 else "none/none",
            model_roles={agent: ModelConfig(model=policy) for agent, policy in team.items()},
            config=EvalConfig(epochs=max(sample.epoch for sample in samples)),
            packages={"palaver": version("palaver")},
            metadata={"environment": id, "episodes": name, "sha256": digest},
            viewer=ViewerConfig(trust_content=False),
        ),
        plan=EvalPlan(name="palaver"),
        results=EvalResults(
            total_samples=len(samples),
            completed_samples=len(samples),
            scores=_results([sample for sample in samples if sample.scores], unscored),
        ),
        samples=samples,
    )


def _samples(episodes: Sequence[Episode]) -> list[EvalSample]:
    played: Counter[str] = Counter()
    samples = []
    for episode in episodes:
        played[episode.task] += 1
        messages = messages_of(episode)
        samples.append(
            EvalSample(
                id=episode.task,
                epoch=played[episode.task],
                input=f"Task {episode.task} of {episode.env.replace('_', '-')}.",
                target="",
                messages=messages,
                output=ModelOutput.from_content("none", messages[-1].text if messages else ""),
                scores=scores_of(episode),
                metadata={"seed": episode.seed, "team": dict(episode.team)},
                store={EPISODE: json.dumps(episode.to_dict())},
            )
        )
    return samples


def _results(samples: Sequence[EvalSample], unscored: int) -> list[EvalScore]:
    """Means over tasks, with standard errors; the episodes of a task are averaged first."""
    by_name: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for sample in samples:
        scores: dict[str, Score] = sample.scores or {}
        by_name["team_return", "team_return"][str(sample.id)].append(float(scores["team_return"].as_float()))
        for agent, value in scores["agent_returns"].as_dict().items():
            by_name[agent, "agent_returns"][str(sample.id)].append(float(value or 0.0))
    return [
        EvalScore(
            name=name,
            scorer=scorer,
            reducer="mean",
            scored_samples=len(samples),
            unscored_samples=unscored,
            metrics=_metrics(returns),
        )
        for (name, scorer), returns in by_name.items()
    ]


def _metrics(returns: Returns) -> dict[str, EvalMetric]:
    means = np.array([np.mean(values) for values in returns.values()])
    error = float(means.std(ddof=1) / math.sqrt(len(means))) if len(means) > 1 else 0.0
    return {
        "mean": EvalMetric(name="mean", value=float(means.mean())),
        "stderr": EvalMetric(name="stderr", value=error),
    }
