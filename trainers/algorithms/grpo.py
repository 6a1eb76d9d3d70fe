"""GRPO: group relative policy optimisation, for one agent. Shao et al., arXiv 2402.03300.

    A^(g) = (R^(g) - mean_h R^(h)) / std_h R^(h)
    L = -1/G sum_g 1/|a^(g)| sum_t [ min(rho A, clip(rho, 1 - eps, 1 + eps) A) - beta (exp(d) - d - 1) ]

with d = log pi_ref - log pi. The group of a prompt is its own baseline, so there is no critic. For one trained agent:
teams have MAGRPO and Dr. MAS. The name sets the normalisation and the mean over each text (equation 3); clip 0.2 and a
single update of each rollout (section 4.2) are the defaults anyway, as is k3 in the loss (equation 4). Its weight, 0.04
in the paper, depends on reward and model and stays the recipe's.
"""

from __future__ import annotations

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.objectives.advantages import group_mean_baseline, shared_reward
from palaver.trainers.objectives.losses import ppo_clip

GRPO = Algorithm(
    "grpo", "arXiv 2402.03300", credit=shared_reward, baseline=group_mean_baseline, loss=ppo_clip, alone=True
)
