"""HAPPO: heterogeneous-agent proximal policy optimisation.

Kuba et al., arXiv 2109.11251, algorithm 4.

    L_i = -E[ M_i min(rho_i A, clip(rho_i, 1 - eps, 1 + eps) A) ]        M_i = prod of rho_j, j before i

One advantage for all, from a joint critic; with `critic.level: token` one for each token. Agents update one after the
other, in a random order or a fixed one, and each weights its samples by the likelihood ratio of the joint action under
those before it (`update/sequential_weight.py`). By default rho_j in M is the ratio of the whole completion, as in the
theorem, and |log M| is at most `factor_clamp`: where the clamp acts, which is logged, M is a bounded part of the
correction. Agents that share one policy update together and would have no factor, so `team.kind: shared` is refused.

The name sets the numbers of the authors' code (HARL, arXiv 2304.09870): 5 epochs, clip 0.2 of ratio and value, lambda
0.95, standardised advantages, normalised values, Huber loss beyond 10.
"""

from __future__ import annotations

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.objectives.advantages import shared_reward, value_baseline
from palaver.trainers.objectives.losses import ppo_clip

HAPPO = Algorithm(
    "happo",
    "arXiv 2109.11251",
    credit=shared_reward,
    baseline=value_baseline,
    loss=ppo_clip,
    critic="joint",
    order="sequence",
    needs_group=False,
)
