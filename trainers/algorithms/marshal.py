"""MARSHAL: turn-level advantages, normalised for each role. Yuan et al., arXiv 2510.15414.

    R_it = sum over t' >= t of gamma^(t' - t) r_it'        A_it = (R_it - mean_i) / std_i        loss of PPO

The rewards of an agent (role) are summed over its later turns first, and normalised afterwards over all of the role's
completions of the step, so that the sums do not add up shifts of single turns. Roles are not compared with each other:
one that wins by the rules alone has no advantage from that. Every agent is credited with its own reward, and no group
is needed. The name sets `normalize: whiten`, which shifts and divides by agent.
"""

from __future__ import annotations

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.objectives.advantages import individual_reward, no_baseline
from palaver.trainers.objectives.losses import ppo_clip

MARSHAL = Algorithm(
    "marshal",
    "arXiv 2510.15414",
    credit=individual_reward,
    baseline=no_baseline,
    loss=ppo_clip,
    needs_group=False,
)
