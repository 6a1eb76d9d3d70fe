"""MAGRPO: multi-agent group-relative policy optimisation.

Liu et al., arXiv 2508.04652 (AAAI-26).

    A_i^(g) = R^(g) - (1/G) sum_h R^(h)            L_i = -(1/G) sum_g A_i^(g) sum_t log pi_i(a_t^(g) | h_i, a_<t^(g))

G joint actions are sampled for one task; every agent is compared with the group's mean team return. No critic, no
ratio, no clip. Defaults of the peer implementation that differ here: its advantages are standardised, which makes its
four estimators one; ours are divided, never shifted (`algorithm.normalize`).
"""

from __future__ import annotations

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.objectives.advantages import group_mean_baseline, shared_reward
from palaver.trainers.objectives.losses import reinforce

MAGRPO = Algorithm("magrpo", "arXiv 2508.04652", credit=shared_reward, baseline=group_mean_baseline, loss=reinforce)
