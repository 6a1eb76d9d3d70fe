"""MAPPO: proximal policy optimisation with one critic for the team. Yu et al., arXiv 2103.01955.

    L_i = -E[ min(rho_i A, clip(rho_i, 1 - eps, 1 + eps) A) ]        A: GAE on V(h_1, ..., h_N)

IPPO but for the critic, which reads what all agents have heard and said, and with `critic.level: token` the tokens
so far. The paper's advice is in the recipe: values normalised, few passes, no minibatches, eps of 0.2 or less.
"""

from __future__ import annotations

from palaver.trainers.algorithm import Algorithm
from palaver.trainers.baselines import minus_value
from palaver.trainers.credit import team
from palaver.trainers.losses import clipped

MAPPO = Algorithm(
    "mappo", "arXiv 2103.01955", credit=team, baseline=minus_value, loss=clipped, critic="joint", needs_group=False
)
