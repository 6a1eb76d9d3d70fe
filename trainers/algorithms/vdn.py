"""VDN: value-decomposition networks. Sunehag et al., arXiv 1706.05296 (AAMAS 2018).

    Q_tot = sum_i Q_i(h_i, a_i)        L = E[ ( r + gamma Q_tot'(s', argmax Q) - Q_tot )^2 ]

Every agent has values of its own actions, learnt from the reward of the team through their sum. Where actions can be
listed an agent plays the greedy one. Where they are sentences a policy samples G, and its gradient is weighted by the
counterfactual advantage of each:

    L_i = -E[ D_i sum_t log pi_i(a_t | h_i, a_<t) ]        D_i = Q_tot(a) - mean over its candidates b of Q_tot(b, a_-i)

which for a sum is Q_i less its mean. In QMIX the weights depend on the state; a sum cannot represent interactions
between actions.
"""

from __future__ import annotations

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.objectives.advantages import group_mean_baseline, shared_reward
from palaver.trainers.objectives.losses import reinforce

VDN = Algorithm(
    "vdn", "arXiv 1706.05296", credit=shared_reward, baseline=group_mean_baseline, loss=reinforce, mixer="sum"
)
