"""QMIX: monotonic value mixing. Rashid et al., arXiv 1803.11485 (ICML 2018).

    Q_tot = ELU( Q |W1(s)| + b1(s) ) |wf(s)| + v(s)        L = E[ ( r + gamma Q_tot'(s', argmax Q) - Q_tot )^2 ]

The state determines the weight of each agent's value. No weight is negative, so that each agent's greedy action is part
of the greedy joint action of Q_tot. VDN is the case of weights that are all 1. A team in which the best answer of one
agent depends on that of another cannot be represented, as in the game `qtran`.
"""

from __future__ import annotations

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.objectives.advantages import group_mean_baseline, shared_reward
from palaver.trainers.objectives.losses import reinforce

QMIX = Algorithm(
    "qmix", "arXiv 1803.11485", credit=shared_reward, baseline=group_mean_baseline, loss=reinforce, mixer="monotonic"
)
