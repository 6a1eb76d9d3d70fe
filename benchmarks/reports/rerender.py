"""Replay of a recorded episode to render its frames."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from palaver.core import ConfigError, Episode
from palaver.envs.base.env import TextEnv
from palaver.envs.base.reward_wrapper import RewardWrapper
from palaver.trainers.rollout.branches import start

MOST_FRAMES = 8  # of one episode; a longer one is shown at evenly spaced turns, including the last
Frame = tuple[int, NDArray[np.uint8]]  # the turn, counted from 0, and the picture (height, width, 3) after it


def replay(env: TextEnv, episode: Episode) -> list[Frame]:
    """Frames of an episode, turn by turn: the environment is stepped with the recorded texts.

    Args:
        env: as it was when the episode was played, with `rgb_array` among its render modes; forked before use.
        episode: as saved, token ids are not needed.

    Raises:
        TaskError: the environment has no such task.
        ConfigError: the record is of another environment, or of another version of it: the rewards differ.
    """
    if episode.env != env.metadata["name"] or not isinstance(episode.seed, int):
        raise ConfigError(f"the episode of task {episode.task!r} is not one of {env.metadata['name']}")
    judged = isinstance(
        env, RewardWrapper
    )  # skip a judge's reward: it costs money and may differ from the recorded one
    env_copy = env.inner.fork() if isinstance(env, RewardWrapper) else env.fork()
    env_copy.render_mode = "rgb_array"
    start(env_copy, episode.task, episode.seed)
    drawn = _chosen(len(episode.turns))
    frames = []
    for index, turn in enumerate(episode.turns):
        _, rewards, *_ = env_copy.step({agent: completion.text for agent, completion in turn.completions.items()})
        if not judged and not all(
            math.isclose(rewards.get(agent, 0.0), was, abs_tol=1e-6) for agent, was in turn.rewards.items()
        ):
            raise ConfigError(
                f"the environment {episode.env} no longer gives the recorded reward for task {episode.task!r}, "
                f"turn {index + 1}"
            )
        if index in drawn:
            frames.append((index, np.asarray(env_copy.render(), dtype=np.uint8)))
    return frames


def _chosen(turns: int) -> set[int]:
    return {round(index) for index in np.linspace(turns - 1, 0, min(turns, MOST_FRAMES))}
