"""Rollouts that wait for their update (`train.rollout_lead`), and their checkpoints.

With a lead of 1 the rollout of step k + 1 is drawn before update k, by the weights that update k - 1 left: samples are
one update behind. A checkpoint after step k holds the rollout of step k + 1, so that a resumed run continues exactly.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, fields
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from palaver.core import CheckpointError, Completion, Message, ToolCall, ToolStep
from palaver.episodes import CutState, Episode, Turn
from palaver.trainers.config.run import RunConfig
from palaver.trainers.rollout.batch import Batch
from palaver.trainers.rollout.tasks import ResampledEpisodes
from palaver.trainers.run import checkpoint


@dataclass(frozen=True, slots=True)
class StepRollout:
    """Rollout of a training step on this process, ready for its update.

    Attributes:
        drawn: all its episodes.
        episodes: those that are trained on.
        batch: their batch, without returns.
        drifts: metrics of engines with a copy of the weights (`engine_drift.py`).
    """

    drawn: ResampledEpisodes
    episodes: list[Episode]
    batch: Batch
    drifts: Mapping[str, float]


@dataclass(slots=True)
class Overlap:
    """Time of a rollout that is drawn while an update runs.

    Attributes:
        drawing: seconds of the rollout.
        waited: those of them after the update.
    """

    drawing: float = 0.0
    waited: float = 0.0


@contextmanager
def meanwhile(draw: Callable[[int], StepRollout], step: int, pending: dict[int, StepRollout]) -> Iterator[Overlap]:
    """Draw the rollout of `step` in a thread while the block runs, and add it to `pending`.

    The block's end waits for it. An error of either is raised when both have ended, that of the block if both have
    one. `KeyboardInterrupt` waits for nothing: the thread ends with the workers that it asks.

    Args:
        draw: step -> its rollout.
        step: the step that is drawn.
        pending: rollouts that wait for their update, by step.

    Yields:
        Seconds, filled in at the end.
    """
    times, threads = Overlap(), torch.get_num_threads()

    def timed(ahead: int) -> StepRollout:
        began = time.perf_counter()
        rollout = draw(ahead)
        times.drawing = time.perf_counter() - began
        return rollout

    pool = ThreadPoolExecutor(1, "rollout", torch.set_num_threads, (threads,))  # as many as this thread has
    try:
        drawn = pool.map(timed, [step])
        yield times
        updated = time.perf_counter()
        (pending[step],) = drawn
        times.waited = time.perf_counter() - updated
    finally:
        pool.shutdown(wait=not isinstance(sys.exc_info()[1], KeyboardInterrupt))


RECORDS = (StepRollout, ResampledEpisodes, Batch, Episode, Turn, CutState, Completion, Message, ToolCall, ToolStep)


def load_pending(config: RunConfig, start: Path | None) -> dict[int, StepRollout]:
    """Rollouts that wait at a checkpoint; empty at the beginning of a run.

    Raises:
        CheckpointError: a rollout is missing.
    """
    if start is None or not config.train.rollout_lead:
        return {}
    rollouts, done = from_plain(checkpoint.load_rollouts(start)), checkpoint.step_of(start)
    if done < config.train.steps and done + 1 not in rollouts:
        raise CheckpointError(
            f"the checkpoint {str(start)!r} lacks the rollout of step {done + 1}, which train.rollout_lead=1 drew "
            "before it: start the run again"
        )
    return rollouts


def to_plain(rollouts: Mapping[int, StepRollout]) -> dict[int, Any]:
    """Rollouts by step as tuples, lists, dicts, numbers, texts and tensors.

    A record becomes ("name of its class", {field: value}), a tuple ("tuple", [...]). Equal objects stay one object, as
    a pickle keeps them: shared completions are counted once.

    Raises:
        CheckpointError: an environment put something else into a record.
    """
    known: dict[int, Any] = {}

    def plain(value: Any) -> Any:
        if isinstance(value, Tensor):
            return value
        if not isinstance(value, (*RECORDS, tuple, list, Mapping)):
            return _atom(value)
        if id(value) not in known:
            known[id(value)] = encoded(value)
        return known[id(value)]

    def encoded(value: Any) -> Any:
        if type(value) in RECORDS:
            return type(value).__name__, {each.name: plain(getattr(value, each.name)) for each in fields(value)}
        if isinstance(value, tuple):
            return "tuple", [plain(item) for item in value]
        if isinstance(value, list):
            return [plain(item) for item in value]
        return {_atom(key): plain(item) for key, item in value.items()}

    return {step: plain(rollout) for step, rollout in rollouts.items()}


def from_plain(state: Mapping[int, Any]) -> dict[int, StepRollout]:
    """Restore what `to_plain` returned."""
    kinds: dict[str, Any] = {kind.__name__: kind for kind in RECORDS}
    known: dict[int, Any] = {}

    def value_of(plain: Any) -> Any:
        if not isinstance(plain, (tuple, list, dict)):
            return plain
        if id(plain) not in known:
            known[id(plain)] = decoded(plain)
        return known[id(plain)]

    def decoded(plain: Any) -> Any:
        if isinstance(plain, list):
            return [value_of(item) for item in plain]
        if isinstance(plain, dict):
            return {key: value_of(item) for key, item in plain.items()}
        kind, content = plain
        if kind == "tuple":
            return tuple(value_of(item) for item in content)
        return kinds[kind](**{name: value_of(item) for name, item in content.items()})

    return {step: value_of(plain) for step, plain in state.items()}


def _atom(value: Any) -> Any:
    """A number, text or None as Python's own type; numpy's numbers are of others."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Integral):
        return int(value)
    if isinstance(value, Real):
        return float(value)
    raise CheckpointError(
        f"an episode holds an object of type {type(value).__name__!r}, which a checkpoint cannot keep: "
        "let the environment give numbers and texts, or set train.rollout_lead=0"
    )
