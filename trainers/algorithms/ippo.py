"""IPPO: independent proximal policy optimisation. de Witt et al., arXiv 2011.09533.

    L_i = -E[ min(rho A_i, clip(rho, 1 - eps, 1 + eps) A_i) ]        A_i: GAE on V_i(h_i)

Every agent has a critic of its own and knows nothing of the others. Decisions of the advantage estimate are turns, or
tokens with `critic.level: token`, as in MAPoRL (arXiv 2502.18439). The samples of a step are used in several passes;
rho is the importance ratio to the sampling policy.

The name sets the numbers of EPyMARL's IPPO (arXiv 2006.07869): 4 epochs, clip 0.2; lambda 0.95 and standardised
advantages are PPO's (arXiv 1707.06347). EPyMARL standardises rewards; here `critic.normalize` does it to the critic's
targets.
"""

from __future__ import annotations

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.objectives.advantages import shared_reward, value_baseline
from palaver.trainers.objectives.losses import ppo_clip

IPPO = Algorithm(
    "ippo",
    "arXiv 2011.09533",
    credit=shared_reward,
    baseline=value_baseline,
    loss=ppo_clip,
    critic="own",
    needs_group=False,
)
