"""Dr. MAS: GRPO for teams, normalised agent by agent. Feng et al., arXiv 2602.08847.

    A_i = (R - mean_i) / std_i        mean_i and std_i over all of agent i's answers to one task        loss of PPO

G episodes of one task, each a chain of turns, and one group for each agent over all of them. Differs from MAGRPO in
the group, the clipped ratio and the settings that the name sets: `turns: independent`, `group_by: agent`,
`normalize: std` (all of the equation), `std: unbiased` (the divisor of the authors' code).
"""

from __future__ import annotations

from palaver.trainers.algorithms.base import Algorithm
from palaver.trainers.objectives.advantages import group_mean_baseline, shared_reward
from palaver.trainers.objectives.losses import ppo_clip

DRMAS = Algorithm("drmas", "arXiv 2602.08847", credit=shared_reward, baseline=group_mean_baseline, loss=ppo_clip)
