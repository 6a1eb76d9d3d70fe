"""pass@k: probability that one of k samples solves a task.

The estimator is that of M. Chen et al., "Evaluating Large Language Models Trained on Code" (arXiv:2107.03374), equation
1: of n samples of a task c are right, and

    pass@k = E over tasks of 1 - C(n - c, k) / C(n, k)

which is unbiased, where 1 - (1 - c / n)^k is not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import comb
from statistics import mean

from palaver.episodes import Episode

SOLVED = "solved"  # the measurement, 1 or 0, by which an environment says that a turn solved its task


def pass_at_k(n: int, c: int, k: int) -> float:
    """Probability that k of n samples, drawn without replacement, hold one of the c right ones.

    Raises:
        ValueError: not 0 <= c <= n or not 1 <= k <= n.

    >>> pass_at_k(4, 1, 1), pass_at_k(4, 1, 2), pass_at_k(4, 3, 2)
    (0.25, 0.5, 1.0)
    """
    if not (0 <= c <= n and 1 <= k <= n):
        raise ValueError(f"pass@k needs 0 <= c <= n and 1 <= k <= n, got n={n}, c={c}, k={k}")
    return 1.0 - comb(n - c, k) / comb(n, k)


def passes(episodes: Sequence[Episode]) -> dict[str, float]:
    """`pass@1` and, of several samples, `pass@k`.

    k is the smallest group's size; a group is the samples of one task. An episode counts as right if its last turn
    solved the task. Empty where no environment says so.
    """
    groups: dict[str, list[bool]] = defaultdict(list)
    for episode in episodes:
        if not episode.turns or SOLVED not in episode.turns[-1].metrics:
            return {}
        groups[episode.task].append(episode.turns[-1].metrics[SOLVED] >= 1.0)
    if not groups:
        return {}
    sizes = (1, min(map(len, groups.values())))
    return {f"pass@{k}": mean(pass_at_k(len(group), sum(group), k) for group in groups.values()) for k in sizes}
