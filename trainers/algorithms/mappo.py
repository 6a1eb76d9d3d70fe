"""MAPPO: proximal policy optimisation with one critic for the team.

Yu et al., arXiv 2103.01955.

    L_i = -E[ min(rho_i A, clip(rho_i, 1 - eps, 1 + eps) A) ]        A: GAE on V(h_1, ..., h_N)

IPPO but for the critic, which reads the observations and completions of all agents, and with `critic.level: token`
the tokens so far. The name sets the paper's numbers: values normalised, 5 epochs (its advice for hard tasks is 5 or
10), no minibatches, clip 0.2 of ratio and value, lambda 0.95, standardised advantages, Huber loss beyond 10.
"""

from __future__ import annotations

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.objectives.advantages import shared_reward, value_baseline
from palaver.trainers.objectives.losses import ppo_clip

MAPPO = Algorithm(
    "mappo",
    "arXiv 2103.01955",
    credit=shared_reward,
    baseline=value_baseline,
    loss=ppo_clip,
    critic="joint",
    needs_group=False,
)
