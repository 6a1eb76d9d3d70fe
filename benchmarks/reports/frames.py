"""Frames of an episode for a page: small, embedded, and limited in number."""

from __future__ import annotations

import base64
import io
import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from palaver.benchmarks.reports.run_folder import RunFolder
from palaver.core import ConfigError, PalaverError
from palaver.envs.base.env import TextEnv
from palaver.envs.base.reward_wrapper import RewardWrapper
from palaver.episodes import Episode
from palaver.registry import spec
from palaver.text import one_line
from palaver.trainers.rollout.branches import start
from palaver.trainers.rollout.episodes import text_env

MOST_PICTURES = 64  # on a page; about 35 kB each
WIDTH = 900  # pixels; a wider picture is made smaller
COLORS = 255


@dataclass(frozen=True)
class Frames:
    """Frames of an episode.

    Attributes:
        frames: (turn counted from 1, `data:` URL) of each.
        width: in pixels, of all frames.
        height: likewise.
    """

    frames: list[tuple[int, str]]
    width: int
    height: int


@dataclass
class FrameRenderer:
    """Renders the episodes of a run whose environment supports it.

    Attributes:
        env: None if it cannot render, or cannot be made any more.
        notes: reasons for missing frames.
        left: number of frames that still fit on the page.
    """

    env: TextEnv | None = None
    notes: list[str] = field(default_factory=list)
    left: int = field(default_factory=lambda: MOST_PICTURES)

    def film(self, episode: Episode) -> Frames | None:
        """Return the frames of an episode; None if there are none, or too many on this page."""
        if self.env is None or not episode.turns or self.left < min(len(episode.turns), MOST_FRAMES):
            return None
        try:
            frames = replay(self.env, episode)
        except PalaverError as error:
            self.notes.append(f"no pictures of {one_line(episode.task, 80)}: {one_line(error)}")
            return None
        self.left -= len(frames)
        height, width, _ = frames[0][1].shape
        urls = [
            (turn + 1, f"data:image/png;base64,{base64.b64encode(png(picture)).decode('ascii')}")
            for turn, picture in frames
        ]
        return Frames(urls, width, height)


def frame_renderer(run: RunFolder) -> FrameRenderer:
    """Make the renderer of a run's evaluation episodes."""
    config = run.config
    if config is None or not drawable(config.env.id):
        return FrameRenderer()
    try:
        return FrameRenderer(text_env(config.env.id, config.env.keywords(config.eval.tasks)))
    except PalaverError as error:  # its tasks are gone, or keywords have changed
        return FrameRenderer(notes=[f"no pictures: {one_line(error)}"])


def drawable(id: str) -> bool:
    """Return whether the environment of this id exists and can render `rgb_array`."""
    try:
        creator = spec(id).creator()
    except ConfigError:  # an environment of the user's that is not registered here
        return False
    return "rgb_array" in getattr(creator, "metadata", {}).get("render_modes", ())


def png(picture: NDArray[np.uint8]) -> bytes:
    """Encode an image (height, width, 3) as PNG, at most `WIDTH` wide.

    Its most frequent colours are kept exactly; the others, those of smooth edges, become the nearest of these.
    """
    from PIL import Image

    image = Image.fromarray(picture)
    image.thumbnail((WIDTH, 4 * WIDTH))
    codes = np.asarray(image).astype(np.int64) @ np.array([1 << 16, 1 << 8, 1])
    colors, places, counts = np.unique(codes, return_inverse=True, return_counts=True)
    every = np.stack([colors >> 16, colors >> 8 & 255, colors & 255], axis=1)
    palette = every[np.argsort(-counts, kind="stable")[:COLORS]]
    nearest = cdist(every, palette, "sqeuclidean").argmin(axis=1)
    small = Image.fromarray(nearest[places].reshape(codes.shape).astype(np.uint8))
    small.putpalette(palette.astype(np.uint8).tobytes())
    buffer = io.BytesIO()
    small.save(buffer, "png", optimize=True)
    return buffer.getvalue()


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
    last = len(episode.turns) - 1
    drawn = {round(index) for index in np.linspace(last, 0, min(last + 1, MOST_FRAMES))}
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
