"""RAE: role-conditioned advantage estimation for self-play. SPIRAL, arXiv 2506.24119.

    A_ie = R_ie - b_i,    then    b_i <- decay b_i + (1 - decay) R_ie,    once an episode e

Liu et al., equation 7. b_i is a moving mean of the returns of agent (role) i; episodes follow each other in the order
of the rollout. All completions of an agent in one episode have the same baseline, the mean before that episode
(`palaver.trainers.update.moving_baseline`). Every agent is credited with its own reward, as in zero-sum games. No group
is needed.
"""

from __future__ import annotations

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.objectives.advantages import individual_reward, value_baseline
from palaver.trainers.objectives.losses import reinforce

RAE = Algorithm(
    "rae",
    "arXiv 2506.24119",
    credit=individual_reward,
    baseline=value_baseline,
    loss=reinforce,
    critic="agent",
    needs_group=False,
)
