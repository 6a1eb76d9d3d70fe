"""Episodes as a data set."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from palaver.core import TaskError, need
from palaver.episodes import Episode
from palaver.trainers.rollout.metrics import agent_returns

if TYPE_CHECKING:
    from datasets import Dataset


def to_dataset(episodes: Sequence[Episode], tokens: bool = False) -> Dataset:
    """Data set with a row for each episode, which `from_dataset` reads back.

    Columns: `env`, `task`, `seed`, `stop`, `team_return`, `returns` (agent -> its return), `team` (agent -> name of its
    policy) and `record`, the whole episode in JSON.

    Args:
        episodes: of one environment.
        tokens: keep token ids and log-probabilities.

    Raises:
        ConfigError: `datasets` is not installed.
    """
    need("a data set", "train", "datasets")
    from datasets import Dataset

    rows = [
        {
            "env": episode.env,
            "task": episode.task,
            "seed": episode.seed,
            "stop": episode.stop,
            "team_return": episode.team_return(),
            "returns": agent_returns(episode),
            "team": dict(episode.team),
            "record": json.dumps(episode.to_dict(tokens)),
        }
        for episode in episodes
    ]
    return Dataset.from_list(rows)


def from_dataset(dataset: Dataset) -> list[Episode]:
    """Episodes of a data set made by `to_dataset`.

    Raises:
        TaskError: it has no column `record`, or a record is no episode.
        CheckpointError: a record has another format.
    """
    if "record" not in dataset.column_names:
        raise TaskError(f"the data set has no column 'record' of episodes; it has {', '.join(dataset.column_names)}")
    episodes = []
    for number, text in enumerate(dataset["record"]):
        try:
            episodes.append(Episode.from_dict(json.loads(text)))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise TaskError(f"the record of row {number} is no episode") from error
    return episodes
