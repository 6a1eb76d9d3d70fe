"""Batches of trajectories for a network, padded, each of about as many decisions.

for batch in batches(Reader(folder), vocabulary, decisions=4096, seed=0, epoch=0):
    ...
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from palaver.core import CheckpointError, ConfigError, stable_seed
from palaver.trainers.trajectories.columns import Columns
from palaver.trainers.trajectories.reader import Reader
from palaver.trainers.trajectories.record import MISSING

POOL = 1024  # trajectories that are sorted by length before they are cut into batches

Vocabulary = Callable[[Sequence[str]], Sequence[int]]


@dataclass(frozen=True)
class TrajectoryBatch:
    """B trajectories of at most S decisions; W words, K numbers.

    What is padding is False in `real`.

    Attributes:
        words: (B, S, W) int64, ids of the caller's vocabulary; 0 in padding.
        numbers: (B, S, K) float32.
        mask: (B, S, 14) bool, the legal slots; all True in padding, so that no softmax over it is undefined.
        slot: (B, S) int64, what was played; `MISSING` (-1) where it is not known, and in padding.
        reward: (B, S) float32.
        result: (B,) float32: 1 won, 0.5 tied, 0 lost.
        real: (B, S) bool.
        advice: (B, S, 14) float32, how good a coach held each slot; rows of 0 where none was asked.
    """

    words: torch.Tensor
    numbers: torch.Tensor
    mask: torch.Tensor
    slot: torch.Tensor
    reward: torch.Tensor
    result: torch.Tensor
    real: torch.Tensor
    advice: torch.Tensor


def batches(
    reader: Reader,
    vocabulary: Vocabulary,
    decisions: int,
    seed: int,
    epoch: int,
    weights: Sequence[float] | None = None,
    skip: int = 0,
) -> Iterator[TrajectoryBatch]:
    """One epoch: as many trajectories as the reader has, in an order that seed and epoch decide.

    Args:
        reader: of a folder, or a selection.
        vocabulary: words -> ids; is called once for each shard, with all its words and labels.
        decisions: places B x S that a batch has at most; a trajectory that is longer is a batch of its own.
        seed: of the order.
        epoch: another one, another order.
        weights: of the trajectories, 0 or more; see `draw`. None: each once.
        skip: batches at the beginning that were seen already.

    Raises:
        ConfigError: `decisions` or `weights` that do not fit.
        CheckpointError: a trajectory is damaged, or has another count of words or numbers than the first.
    """
    planned = plan([entry.decisions for entry in reader.entries], decisions, seed, epoch, weights)
    tables = {shard: np.asarray(vocabulary(table), np.int64) for shard, table in reader.tables.items()}
    for chosen in planned[skip:]:
        yield _pad([reader.columns(n) for n in chosen], reader, chosen, tables)


def plan(
    lengths: Sequence[int], decisions: int, seed: int, epoch: int, weights: Sequence[float] | None = None
) -> list[list[int]]:
    """Assign the trajectories of an epoch to batches of similar length, in a random order.

    Raises:
        ConfigError: see `batches`.
    """
    if decisions < 1:
        raise ConfigError(f"a batch has 1 decision or more, got {decisions}")
    rng = np.random.default_rng(stable_seed(seed, "battles", epoch))
    drawn = np.arange(len(lengths)) if weights is None else draw(weights, len(lengths), rng)
    order = rng.permutation(drawn).tolist()
    batches: list[list[int]] = []
    for begin in range(0, len(order), POOL):
        batch: list[int] = []
        for n in sorted(order[begin : begin + POOL], key=lambda n: lengths[n]):
            if batch and (len(batch) + 1) * lengths[n] > decisions:
                batches.append(batch)
                batch = []
            batch.append(n)
        batches.append(batch)
    return [batches[n] for n in rng.permutation(len(batches))]


def draw(weights: Sequence[float], count: int, rng: np.random.Generator) -> np.ndarray:
    """(count,) indices, each as often as its share of the weights.

    Numbers are rounded up or down at random. Systematic resampling (Kitagawa 1996, Monte Carlo filter and smoother for
    non-Gaussian nonlinear state space models, appendix): equal weights give each place once if `count` is their number.

    Raises:
        ConfigError: another number of weights than of trajectories, a negative one, or none above 0.
    """
    shares = np.asarray(weights, np.float64)
    if shares.shape != (count,) or not np.isfinite(shares).all() or (shares < 0).any() or not shares.sum():
        raise ConfigError(f"weights must be {count} numbers of 0 or more, one for each trajectory, not all 0")
    ends = np.cumsum(shares)
    points = (np.arange(count) + rng.random()) / count * ends[-1]
    points = np.minimum(points, np.nextafter(ends[-1], 0))  # the last may be rounded up
    indices: np.ndarray = np.searchsorted(ends, points, side="right")
    return indices


def _pad(
    columns: Sequence[Columns], reader: Reader, chosen: Sequence[int], tables: dict[int, np.ndarray]
) -> TrajectoryBatch:
    B, S = len(columns), max(len(trajectory.slot) for trajectory in columns)
    W, K, A = (getattr(columns[0], name).shape[1] for name in ("words", "numbers", "mask"))
    words, numbers = np.zeros((B, S, W), np.int64), np.zeros((B, S, K), np.float32)
    mask, slot = np.ones((B, S, A), np.bool_), np.full((B, S), MISSING, np.int64)
    reward, real = np.zeros((B, S), np.float32), np.zeros((B, S), np.bool_)
    advice = np.zeros((B, S, A), np.float32)
    for row, (trajectory, n) in enumerate(zip(columns, chosen, strict=True)):
        entry, length = reader.entries[n], len(trajectory.slot)
        if (trajectory.words.shape[1], trajectory.numbers.shape[1], trajectory.mask.shape[1]) != (W, K, A):
            raise CheckpointError(
                f"{entry.battle} has {trajectory.words.shape[1]} words and {trajectory.numbers.shape[1]} numbers, "
                f"others in {str(reader.folder)!r} {W} and {K}; battles of two versions cannot be learnt from together"
            )
        words[row, :length] = tables[entry.shard][trajectory.words]
        numbers[row, :length] = trajectory.numbers
        mask[row, :length] = trajectory.mask
        slot[row, :length] = trajectory.slot
        reward[row, :length] = trajectory.reward
        real[row, :length] = True
        if trajectory.advice is not None:
            advice[row, :length] = trajectory.advice
    result = np.array([reader.entries[n].result for n in chosen], np.float32)
    return TrajectoryBatch(*map(torch.from_numpy, (words, numbers, mask, slot, reward, result, real, advice)))
