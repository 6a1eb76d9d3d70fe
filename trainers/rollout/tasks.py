"""Order in which tasks are drawn."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from palaver.core import stable_seed


def batch_of_tasks(tasks: Sequence[str], size: int, seed: int, step: int) -> list[str]:
    """Tasks of a step, drawn without replacement: each pass over the data is shuffled."""
    chosen = []
    for position in range((step - 1) * size, step * size):
        epoch, index = divmod(position, len(tasks))
        order = np.random.default_rng(stable_seed(seed, "order", epoch)).permutation(len(tasks))
        chosen.append(tasks[order[index]])
    return chosen
