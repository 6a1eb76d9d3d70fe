"""Order of the tasks in training."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palaver.core import stable_seed


def batch_of_tasks(tasks: Sequence[str], size: int, seed: int, step: int) -> list[str]:
    """Tasks of a training step; every epoch visits each task once, in an order of its own.

    A step depends on its number alone, so a resumed run has the same tasks.

    Args:
        tasks: ids of all tasks.
        size: number of tasks in a step; a step may span two epochs or more.
        seed: seed of the run.
        step: number of the step, from 1.
    """
    batch = []
    for position in range((step - 1) * size, step * size):
        epoch, index = divmod(position, len(tasks))
        order = np.random.default_rng(stable_seed(seed, "order", epoch)).permutation(len(tasks))
        batch.append(tasks[order[index]])
    return batch
