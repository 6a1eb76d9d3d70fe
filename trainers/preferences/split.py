"""Training and test split of pairs, with no task on both sides. Free of torch."""

from __future__ import annotations

import random
from collections.abc import Sequence

from palaver.core import TaskError, stable_seed
from palaver.trainers.preferences.record import PreferenceRecord


def by_task(
    pairs: Sequence[PreferenceRecord], share: float, seed: int
) -> tuple[list[PreferenceRecord], list[PreferenceRecord]]:
    """Split pairs by task into training and held-out pairs, with one task or more on each side.

    Raises:
        TaskError: all pairs are of one task.
    """
    tasks = sorted({pair.task for pair in pairs})
    if len(tasks) < 2:
        raise TaskError(
            f"pairs of {len(tasks)} task(s) cannot be split into training and test; give pairs of two or more"
        )
    random.Random(stable_seed(seed, "held out")).shuffle(tasks)
    aside = set(tasks[: min(len(tasks) - 1, max(1, round(share * len(tasks))))])
    return [pair for pair in pairs if pair.task not in aside], [pair for pair in pairs if pair.task in aside]
