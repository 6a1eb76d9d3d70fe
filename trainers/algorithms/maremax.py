"""MAREMAX: multi-agent REINFORCE against the best sibling.

After ReMax, Li et al., arXiv 2310.10505.

    A_i^(g) = R^(g) - max_h R^(h)  <=  0

Differs from MAGRPO in the baseline: the best of the group in place of its mean. The best joint action has
advantage 0 and all others are pushed down. ReMax itself compares with the greedy answer, which needs one more
generation.
"""

from __future__ import annotations

from dataclasses import replace

from palaver.trainers.algorithms.magrpo import MAGRPO
from palaver.trainers.objectives.advantages import max_baseline

MAREMAX = replace(MAGRPO, name="maremax", paper="arXiv 2310.10505", baseline=max_baseline)
