"""RAE: role-conditioned advantage estimation for self-play. SPIRAL, Liu et al., arXiv 2506.24119, equation 7.

    A = R - b_i        then        b_i <- decay b_i + (1 - decay) R

Every agent (role) has a moving mean of its own returns; the baseline of a step is the mean before it. Each agent
answers for its own reward, as in games where one wins what the other loses. No group is needed.
"""

from __future__ import annotations

from palaver.trainers.algorithm import Algorithm
from palaver.trainers.baselines import minus_value
from palaver.trainers.credit import own
from palaver.trainers.losses import reinforce

RAE = Algorithm(
    "rae", "arXiv 2506.24119", credit=own, baseline=minus_value, loss=reinforce, critic="agent", needs_group=False
)
