"""RAE: role-conditioned advantage estimation for self-play. SPIRAL, Liu et al., arXiv 2506.24119, equation 7.

    A_e = R_e - b_i        then        b_i <- decay b_i + (1 - decay) R_e        once an episode e

Every agent (role) has a moving mean of its own returns; an episode's baseline is the mean before it, in the order of
the rollout, and all completions of the agent in the episode share it
(`update/moving_baseline.py`). Each agent is credited with its own reward, as in zero-sum games.
No group is needed.
"""

from __future__ import annotations

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.objectives.advantages import value_baseline
from palaver.trainers.objectives.losses import reinforce
from palaver.trainers.objectives.returns import individual_reward

RAE = Algorithm(
    "rae",
    "arXiv 2506.24119",
    credit=individual_reward,
    baseline=value_baseline,
    loss=reinforce,
    critic="agent",
    needs_group=False,
)
