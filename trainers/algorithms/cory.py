"""CORY: coevolving with the other you. Ma et al., arXiv 2410.06101 (NeurIPS 2024).

    pioneer  a_1 ~ pi_1( . | q)          observer  a_2 ~ pi_2( . | q, a_1)          r_1 = r_2 = r(q, a_1) + r(q, a_2)
    L_i = -E[ min(rho A_i, clip(rho, 1 - eps, 1 + eps) A_i) ]     A_i: GAE over tokens on V_i(h_i, a_i,<t)

Two copies of one model, each with a critic of its own, learn by PPO with a value before every token. As an `Algorithm`
this is IPPO with `level="token"`. The rest of CORY is elsewhere: the order of agents and the sum of both rewards are
the environment's (`pioneer-v0`; one where all act at once is refused), the exchange of roles is the team's
(`team.swap_every`), the KL penalty of each token as a cost in the reward is `kl.place: reward`.

The name sets the numbers of the authors' code, which are those of TRL's PPO: 4 epochs, clip 0.2 of ratio and value,
whitened advantages, discount 1, lambda 0.95; roles exchanged every 5 updates; the penalty in the reward, whose weight
(0.4 there, adaptive) stays the recipe's. The code scales rewards by their running spread; here `critic.normalize`
scales the critic's targets, so that a clip of 0.2 means the same.
"""

from __future__ import annotations

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.objectives.advantages import shared_reward, value_baseline
from palaver.trainers.objectives.losses import ppo_clip

CORY = Algorithm(
    "cory",
    "arXiv 2410.06101",
    credit=shared_reward,
    baseline=value_baseline,
    loss=ppo_clip,
    critic="own",
    level="token",
    needs_group=False,
    in_turn=True,
)
