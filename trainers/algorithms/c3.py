"""C3: contextual counterfactual credit assignment. Chen et al., arXiv 2603.06859.

    A_i^(k) = R(h, a_i^(k), a_-i) - (1/(G-1)) sum_(j != k) R(h, a_i^(j), a_-i)
    L_i = -(1/G) sum_k A_i^(k) sum_t log pi_i(a_(i,t)^(k) | h_i, a_(i,<t)^(k))

G alternatives of one message are compared in one context h, while the other agents' messages of the turn stay the same
and later turns are sampled by the same policies with the same seeds: a message that changes nothing has an advantage of
exactly 0. As an `Algorithm` this is MARLOO; the name sets `turns: counterfactual`.
"""

from __future__ import annotations

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.objectives.advantages import leave_one_out_baseline, shared_reward
from palaver.trainers.objectives.losses import reinforce

C3 = Algorithm("c3", "arXiv 2603.06859", credit=shared_reward, baseline=leave_one_out_baseline, loss=reinforce)
